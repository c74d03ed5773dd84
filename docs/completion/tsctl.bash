# bash completion for tsctl: commands, options and queries as tsctl itself lists them.

_tsctl_options()
{
	"$1" help "$2" 2>/dev/null | sed -nE 's/^  .{3} (--[a-z-]+).*/\1/p'
}

_tsctl_pids()
{
	"$1" ps --csv 2>/dev/null | sed -n '2,$s/,.*//p'
}

# The columns of `tsctl ps` or `tsctl query NAME`; $2 and $3 are the words from the verb on.
_tsctl_columns()
{
	local query=("$2")
	[ "$2" = ps ] || query+=("$3")
	"$1" "${query[@]}" --csv --limit 1 2>/dev/null | sed -n '1s/,/ /gp'
}

# What can be recorded, as the help of attach lists it.
_tsctl_records()
{
	echo all
	"$1" help attach 2>/dev/null | sed -n 's/^What can be recorded: \(.*\)\./\1/p'
}

# Where the program of `tsctl run` or `record` starts; $1 is the position of the command.
_tsctl_program()
{
	local i=$(($1 + 1))
	while ((i < COMP_CWORD)); do
		case ${COMP_WORDS[i]} in
		--)
			((++i))
			break
			;;
		--records | --stacks | --budget | --pid | --since | --until | --duration | --output | --socket | -[dops])
			((i += 2))
			;;
		-*) ((++i)) ;;
		*) break ;;
		esac
	done
	echo "$i"
}

# A command line that starts at word $1.
_tsctl_command()
{
	if declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif [ "$1" = "$COMP_CWORD" ]; then
		mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
	fi
}

_tsctl()
{
	local tsctl=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local verbs verb='' program i
	COMPREPLY=()
	verbs=$("$tsctl" help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p')
	for ((i = 1; i < COMP_CWORD; i++)); do
		if grep -qxF -e "${COMP_WORDS[i]}" <<<"$verbs"; then
			verb=${COMP_WORDS[i]}
			break
		fi
	done

	if [ "$verb" = run ] || [ "$verb" = record ]; then
		program=$(_tsctl_program "$i")
		if ((program < COMP_CWORD)) || [[ $previous = -- ]] ||
			[[ $program = "$COMP_CWORD" && $word != -* ]]; then
			_tsctl_command "$program"
			return
		fi
	fi

	case $previous in
	-s | --socket | -o | --output | -f | --file)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	-p | --pid)
		mapfile -t COMPREPLY < <(compgen -W "$(_tsctl_pids "$tsctl")" -- "$word")
		return
		;;
	--since | --until | --min-age | --duration | -d | --timeout | --from | --to | --launch-latency | --for)
		mapfile -t COMPREPLY < <(compgen -W "500ms 1s 10s 1m 10m 1h" -- "$word")
		return
		;;
	--user)
		mapfile -t COMPREPLY < <(compgen -u -- "$word")
		return
		;;
	--sort | --columns)
		mapfile -t COMPREPLY < <(compgen -W "$(_tsctl_columns "$tsctl" "${COMP_WORDS[@]:i}")" -- "$word")
		return
		;;
	--budget)
		mapfile -t COMPREPLY < <(compgen -W "1% 3% 5% none" -- "$word")
		return
		;;
	--fail-over | --tolerance)
		mapfile -t COMPREPLY < <(compgen -W "1% 3% 5% 10%" -- "$word")
		return
		;;
	--speed)
		mapfile -t COMPREPLY < <(compgen -W "0.1 1 10 max" -- "$word")
		return
		;;
	--by)
		mapfile -t COMPREPLY < <(compgen -W "stack stream line function module op" -- "$word")
		return
		;;
	--stacks)
		mapfile -t COMPREPLY < <(compgen -W "none sampled all" -- "$word")
		return
		;;
	--records)
		mapfile -t COMPREPLY < <(compgen -W "$(_tsctl_records "$tsctl")" -- "$word")
		return
		;;
	esac
	if [ -z "$verb" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs --socket" -- "$word")
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_tsctl_options "$tsctl" "$verb")" -- "$word")
	elif [ "$verb" = budget ] && [ "$previous" != budget ]; then
		mapfile -t COMPREPLY < <(compgen -W "0.5% 1% 2% 5% none default" -- "$word")
	elif [[ $verb = @(attach|detach|cost|budget|stack) ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_tsctl_pids "$tsctl")" -- "$word")
	elif [ "$verb" = oom ]; then
		mapfile -t COMPREPLY < <(compgen -W "$([ "$previous" = show ] &&
			"$tsctl" oom --csv 2>/dev/null | sed -n '2,$s/,.*//p' || echo show)" -- "$word")
	elif [ "$verb" = ship ]; then
		mapfile -t COMPREPLY < <(compgen -W status -- "$word")
	elif [ "$verb" = fleet ]; then
		mapfile -t COMPREPLY < <(compgen -W "$([ "$previous" = query ] &&
			echo list && "$tsctl" fleet query list --csv | sed -n '2,$s/,.*//p' ||
			echo init query sql)" -- "$word")
	elif [ "$verb" = query ]; then
		mapfile -t COMPREPLY < <(compgen -W "list $("$tsctl" query list --csv 2>/dev/null |
			sed -n '2,$s/,.*//p')" -- "$word")
	elif [[ $verb = @(info|view|export|report|plot|diff|graph|replay|answer) ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -X '!*.sbt' -- "$word")
	elif [ "$verb" = help ]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$word")
	fi
}

complete -F _tsctl tsctl
