#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "client/cmd/command.h"
#include "client/cmd/measure.h"
#include "common/base/wrap.h"
#include "common/codec/stage.h"

static const char *const usage[] = {
	"splitc codecs [--measure (FILE.safetensors | --shape N,H,W,C) [CODEC]… [--threads N]] [--json]",
	"Lists the codecs that `codec:` takes. A chain joins codecs with '|', for example topk:0.2|quant:8.",
	"With --measure it prints for each CODEC: bytes, real and nominal ratio, relative error and GB/s. Without "
	"CODEC it measures some usual ones. It measures every tensor of floats in FILE.safetensors (NHWC, as "
	"activations lie in memory), or normally distributed values of the given shape.",
	NULL,
};

static const char *kind_name(enum sl_stage_kind kind)
{
	static const char *const name[] = {"transform", "quantizer", "bytes"};

	return name[kind];
}

static bool has(int argc, char **argv, const char *option)
{
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], option) == 0)
			return true;
	return false;
}

int splitc_codecs(int argc, char **argv)
{
	struct sl_options o = {.command = "codecs", .usage = usage};
	json_t *list;
	int status;

	if (has(argc, argv, "--measure") && !has(argc, argv, "--help") && !has(argc, argv, "-h"))
		return splitc_measure(argc, argv);
	status = sl_options_parse(&o, argc, argv, SL_OPT_JSON | SL_OPT_MEASURE, 0);
	if (status >= 0)
		return status;
	if (o.shape || o.threads)
		return sl_options_missing(&o, "--measure");
	if (!o.json) {
		printf("%3s  %-12s %-10s %s\n", "id", "name", "kind", "written as");
		for (const struct sl_codec_stage *const *s = sl_codec_stages(); *s; s++)
			sl_print_wrapped(stdout, (*s)->usage,
					 printf("%3u  %-12s %-10s ", (*s)->id, (*s)->name, kind_name((*s)->kind)),
					 SL_WRAP_WIDTH);
		return 0;
	}
	list = json_array();
	for (const struct sl_codec_stage *const *s = sl_codec_stages(); *s; s++)
		json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s}", "id", (*s)->id, "name", (*s)->name,
						      "kind", kind_name((*s)->kind), "usage", (*s)->usage));
	sl_command_print_json(list, JSON_INDENT(2));
	return 0;
}
