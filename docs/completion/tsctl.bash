# bash completion for tsctl: verbs, options and queries as tsctl itself tells them.

# The options of a verb; those that take a value end with '='.
_tsctl_options()
{
	"$1" help "$2" 2>/dev/null |
		sed -nE 's/^  .{3} (--[a-z-]+) [A-Z].*/\1=/p; s/^  .{3} (--[a-z-]+)( .*)?$/\1/p'
}

_tsctl()
{
	local tsctl=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local verbs verb='' i
	COMPREPLY=()
	verbs=$("$tsctl" help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p')
	for ((i = 1; i < COMP_CWORD; i++)); do
		if grep -qxF -e "${COMP_WORDS[i]}" <<<"$verbs"; then
			verb=${COMP_WORDS[i]}
			break
		fi
	done

	case $previous in
	-s | --socket | -o | --output)
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	-p | --pid)
		mapfile -t COMPREPLY < <(compgen -W "$("$tsctl" ps --csv 2>/dev/null |
			sed -n '2,$s/,.*//p')" -- "$word")
		return
		;;
	esac
	if [ -z "$verb" ]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs --socket" -- "$word")
	elif [[ $word == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_tsctl_options "$tsctl" "$verb" |
			tr -d =)" -- "$word")
	elif [ "$verb" = query ]; then
		mapfile -t COMPREPLY < <(compgen -W "list $("$tsctl" query list --csv 2>/dev/null |
			sed -n '2,$s/,.*//p')" -- "$word")
	elif [ "$verb" = help ]; then
		mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$word")
	fi
}

complete -F _tsctl tsctl
