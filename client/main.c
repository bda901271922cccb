#include <locale.h>

#include "client/cmd/command.h"
#include "kernels/cpu/cpu.h"

SL_CPU_BEGIN;
static const struct sl_command commands[] = {
	{"train", splitc_train, "train a network with a server, or with --local in this process"},
	{"init", splitc_init, "write a config from a few answers"},
	{"align", splitc_align, "find the rows that both members of a vertical group have"},
	{"eval", splitc_eval, "loss and accuracy of trained weights on the test or validation part"},
	{"predict", splitc_predict, "print what a trained model predicts for files, or for the test part"},
	{"generate", splitc_generate, "write text behind prompts with a decoder"},
	{"flops", splitc_flops, "count operations, parameters and memory of head, middle and tail"},
	{"graph", splitc_graph, "print the graphs of head, middle and tail"},
	{"codecs", splitc_codecs, "list the codecs, or measure them"},
	{"data", splitc_data, "look at a data set: classes, sizes, broken files, samples"},
	{"tokens", splitc_tokens, "print what a tokenizer makes of text"},
	{"sweep", splitc_sweep, "train a run once for every row of a list; write a CSV and pictures"},
	{"plot", splitc_plot, "draw losses, accuracy and bytes of runs as a picture"},
	{"report", splitc_report, "write a report of a run: what crossed, to whom; check its logs"},
	{"keygen", splitc_keygen, "make this client's key pair"},
	{"status", splitc_status, "show what a running splitc is doing"},
	{"export", splitc_export, "write the trained model as one safetensors or ONNX file"},
	{"leak", splitc_leak, "measure what the server could learn from what crosses the link"},
	{"audit", splitc_audit, "check the server: compute some of its steps here too, and compare"},
	{NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
	sl_cpu_restart_with_kernels(argv);
	(void)setlocale(LC_CTYPE, "C.UTF-8"); /* names in tar files are UTF-8, whatever the environment says */
	return sl_command_run("splitc", SL_BUILD_VERSION, sl_cpu_describe(), commands, argc, argv);
}
