/* The program splits. SL_CPU_BEGIN and sl_cpu_restart_with_kernels make sure of OpenBLAS's kernels (cpu.h). */
#include "kernels/cpu/cpu.h"
#include "server/command.h"

SL_CPU_BEGIN;
static const struct sl_command commands[] = {
	{"serve", splits_serve, "train the middle layers for clients"},
	{"keygen", splits_keygen, "make this server's key pair"},
	{"status", splits_status, "show what a running splits is doing"},
	{"reports", splits_reports, "print the figures that a group's members have reported"},
	{"report", splits_report, "write a report of who was connected, for an audit"},
	{NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
	sl_cpu_restart_with_kernels(argv);
	return sl_command_run("splits", SL_BUILD_VERSION, sl_cpu_describe(), commands, argc, argv);
}
