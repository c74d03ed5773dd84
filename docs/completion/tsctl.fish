# fish completion for tsctl: commands, options and queries as tsctl itself lists them.

function __tsctl_verbs
	tsctl help 2>/dev/null | string replace -rf '^  ([a-z]+) +(.*)' '$1\t$2'
end

function __tsctl_verb
	set -l verbs (tsctl help 2>/dev/null | string replace -rf '^  ([a-z]+) .*' '$1')
	for word in (commandline -opc)[2..]
		if contains -- $word $verbs
			echo $word
			return 0
		end
	end
	return 1
end

function __tsctl_verb_is
	test "$(__tsctl_verb)" = $argv[1]
end

function __tsctl_options
	set -l verb (__tsctl_verb); or return
	tsctl help $verb 2>/dev/null |
		string replace -rf '^  .{3} (--[a-z-]+)( [A-Z:]+|\[=[A-Z.]+\])? +(.*)' '$1\t$3'
end

function __tsctl_pids
	tsctl ps --csv 2>/dev/null | string match -r '^[0-9]+'
end

function __tsctl_records
	echo all
	tsctl help attach 2>/dev/null | string replace -rf '^What can be recorded: (.*)\.' '$1' |
		string split ' '
end

# The columns of `tsctl ps` or `tsctl query NAME`.
function __tsctl_columns
	set -l words (commandline -opc)
	while set -q words[1]; and not contains -- $words[1] ps query
		set -e words[1]
	end
	test "$words[1]" = ps; and set words ps; or set words $words[1..2]
	tsctl $words --csv --limit 1 2>/dev/null | head -n 1 | string split ,
end

# The words of the program of `tsctl run` or `record`, without their own options before it.
function __tsctl_program
	set -l words (commandline -opc)
	while set -q words[1]; and not contains -- $words[1] run record
		set -e words[1]
	end
	set -e words[1]
	while set -q words[1]
		switch $words[1]
			case --
				set -e words[1]
				break
			case --records --stacks --budget --pid --since --until --duration --output --socket -d -o -p -s
				set -e words[1..2]
			case '-*'
				set -e words[1]
			case '*'
				break
		end
	end
	string join \n -- $words
end

function __tsctl_runs
	contains -- (__tsctl_verb) run record; and test -n "$(__tsctl_program)"
end

function __tsctl_queries
	echo list
	tsctl query list --csv 2>/dev/null | string match -r '^[^,]+' | tail -n +2
end

complete -c tsctl -f
complete -c tsctl -n 'not __tsctl_verb' -a '(__tsctl_verbs)'
complete -c tsctl -n '__tsctl_verb_is help' -a '(__tsctl_verbs)'
complete -c tsctl -n '__tsctl_verb_is query' -a '(__tsctl_queries)'
complete -c tsctl -n '__tsctl_verb_is oom' -a 'show'
complete -c tsctl -n '__tsctl_verb_is ship' -a 'status'
complete -c tsctl -n '__tsctl_verb_is fleet' -a 'init query sql'
complete -c tsctl -n '__tsctl_verb_is attach' -a '(__tsctl_pids)'
complete -c tsctl -n '__tsctl_verb_is detach' -a '(__tsctl_pids)'
complete -c tsctl -n '__tsctl_verb_is cost' -a '(__tsctl_pids)'
complete -c tsctl -n '__tsctl_verb_is stack' -a '(__tsctl_pids)'
complete -c tsctl -n '__tsctl_verb_is budget' -a '(__tsctl_pids) 0.5% 1% 2% 5% none default'
complete -c tsctl -n 'contains -- (__tsctl_verb) run record; and not __tsctl_runs' -a '(__fish_complete_command)'
complete -c tsctl -n '__tsctl_runs' -a '(complete -C "$(string escape -- (__tsctl_program) | string join " ") $(commandline -ct)")'
complete -c tsctl -n 'contains -- (__tsctl_verb) query' -l by -x -a 'stack stream line function module op'
complete -c tsctl -n 'contains -- (__tsctl_verb) run record attach' -l stacks -x -a 'none sampled all'
complete -c tsctl -n 'contains -- (__tsctl_verb) run record attach' -l records -x -a '(__tsctl_records)'
complete -c tsctl -n '__tsctl_verb >/dev/null; and not __tsctl_runs; and string match -q -- "-*" (commandline -ct)' -a '(__tsctl_options)'
complete -c tsctl -s s -l socket -r -F
complete -c tsctl -n '__tsctl_verb >/dev/null; and not __tsctl_runs' -s p -l pid -x -a '(__tsctl_pids)'
complete -c tsctl -n 'contains -- (__tsctl_verb) ps query' -l user -x -a '(__fish_complete_users)'
complete -c tsctl -n 'contains -- (__tsctl_verb) ps query' -l sort -x -a '(__tsctl_columns)'
complete -c tsctl -n 'contains -- (__tsctl_verb) ps query' -l columns -x -a '(__tsctl_columns)'
complete -c tsctl -n 'contains -- (__tsctl_verb) ps query' -l name -x
complete -c tsctl -n '__tsctl_verb_is replay' -l speed -x -a '0.1 1 10 max'
complete -c tsctl -n 'contains -- (__tsctl_verb) export report plot record graph replay' -s o -l output -r -F
complete -c tsctl -n 'contains -- (__tsctl_verb) query sql export report plot view graph replay' -s f -l file -r -F
complete -c tsctl -n 'contains -- (__tsctl_verb) info view export report plot diff graph replay answer' -a '(__fish_complete_suffix .sbt)'
for name in since until min-age duration timeout from to launch-latency for
	complete -c tsctl -n '__tsctl_verb >/dev/null; and not __tsctl_runs' -l $name -x -a '500ms 1s 10s 1m 10m 1h'
end
complete -c tsctl -n '__tsctl_verb >/dev/null; and not __tsctl_runs' -l budget -x -a '1% 3% 5% none'
for name in fail-over tolerance
	complete -c tsctl -n '__tsctl_verb >/dev/null; and not __tsctl_runs' -l $name -x -a '1% 3% 5% 10%'
end
