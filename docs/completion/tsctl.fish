# fish completion for tsctl: verbs, options and queries as tsctl itself tells them.

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
		string replace -rf '^  .{3} (--[a-z-]+)( [A-Z]+)? +(.*)' '$1\t$3'
end

function __tsctl_queries
	echo list
	tsctl query list --csv 2>/dev/null | string match -r '^[^,]+' | tail -n +2
end

complete -c tsctl -f
complete -c tsctl -n 'not __tsctl_verb' -a '(__tsctl_verbs)'
complete -c tsctl -n '__tsctl_verb_is help' -a '(__tsctl_verbs)'
complete -c tsctl -n '__tsctl_verb_is query' -a '(__tsctl_queries)'
complete -c tsctl -n '__tsctl_verb >/dev/null; and string match -q -- "-*" (commandline -ct)' -a '(__tsctl_options)'
complete -c tsctl -s s -l socket -r -F
complete -c tsctl -n '__tsctl_verb_is export' -s o -l output -r -F
