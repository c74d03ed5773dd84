# Puts the settings that `tracesmithd --print-config` writes into the page's @SETTINGS@:
# "[section]" is a subsection, "# text" describes the "#name = default" that follows it.
# Usage: awk -f settings.awk SETTINGS PAGE

function line(text)
{
	settings = settings text "\n"
}

function close_list()
{
	if (open)
		line(".El")
	open = 0
}

FNR == NR && /^\[/ {
	close_list()
	line(".Ss " $0)
	line(".Bl -tag -width Ds")
	open = 1
}
FNR == NR && /^# / {
	gsub(/[.] /, "&\n") # a sentence, a line
	gsub(/ \n/, "\n")
	text = text substr($0, 3) "\n"
}
FNR == NR && /^#[a-z]/ {
	split(substr($0, 2), setting, / = ?/)
	value = substr($0, length(setting[1]) + 5)
	gsub(/\\/, "\\e", value)
	line(".It Cm " setting[1])
	line(text ".br")
	line(value == "" ? "Empty by default." : "The default is\n.Li \\(aq" value "\\(aq .")
	text = ""
}
FNR == NR {
	next
}
/^@SETTINGS@$/ {
	close_list()
	printf ".Sh SETTINGS\n%s", settings
	next
}
{
	print
}
