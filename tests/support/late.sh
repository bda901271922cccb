# shellcheck shell=bash
# Makes every script late: BASH_ENV=$PWD/tests/support/late.sh SPLIT_LATE=2 make test. Each script sleeps so many seconds before it
# kills, signals, asks or waits for somebody, and before it starts anybody, as it does where the machine is busy or the daemons are
# fast. A test that needs the moment before then fails every time.
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
