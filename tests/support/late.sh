# shellcheck shell=bash
# Delays every script: BASH_ENV=$PWD/tests/support/late.sh SPLIT_LATE=2 make test. Each script sleeps SPLIT_LATE seconds before it
# starts, kills, signals, asks or waits for a process, as if the machine were busy or the daemons fast. A test that depends on
# the script being in time then fails every time.
late() {
	case $1 in
	clock_starts*) late_by=0 ;; # what a script measures is not its own sleep
	clock_within\ *) late_by= ;;
	*'kill -0 '*) ;;
	kill\ * | end_* | signal\ * | ask\ * | wait_for\ * | at_point\ * | start_* | client_stands\ * | client\ * | '"$SPLITC"'* | '"$SPLITS"'* | '"$TOOLS'*)
		sleep "${late_by:-${SPLIT_LATE:-2}}"
		;;
	esac
}
set -T
trap 'late "$BASH_COMMAND"' DEBUG
