#include "client/cmd/preset.h"

#include <stdlib.h>
#include <string.h>

#include "client/run/setup.h"

/* @KEY@ becomes that key's value; @cut@ the key or keys of the cut; @form@, @dropout@ and @crop@ lines that some
 * networks or data lack.
 * The rest is configs/client-demo.yaml, as tests/e2e/init.sh compares. */
static const char template[] =
	"# A run of splitc. `splitc train FILE --print-config` prints every key with what it means.\n"
	"server: @server@   # where splits listens\n"
	"model:\n"
	"  name: @model.name@\n"
	"  classes: @model.classes@\n"
	"  image: 32        # pixels\n"
	"@form@"
	"  width: 0.35      # of the channels; 1: the whole network\n"
	"@dropout@"
	"# Between head and tail, which stay here, lies what the server trains.\n"
	"@cut@"
	"data:\n"
	"  kind: @data.kind@\n"
	"  dir: @data.dir@\n"
	"@crop@"
	"  normalize: @data.normalize@\n"
	"train:\n"
	"  batch: 128\n"
	"  chunks: 4        # parts of a batch that are on their way at once\n"
	"  epochs: 2\n"
	"  seed: 1\n"
	"  optimizer: {kind: sgd, lr: 0.1, momentum: 0.9, weight_decay: 0.0001, nesterov: true}\n"
	"  schedule: {kind: cosine, warmup_epochs: 0.5}\n"
	"# How the four tensors cross the link: a quarter of their fp32 bytes. `splitc codecs` lists what else there "
	"is. Small\n"
	"# gradients beside few large ones would be rounded to 0: stochastic rounding is right on average.\n"
	"codec:\n"
	"  head_act: quant:8\n"
	"  mid_act: quant:8\n"
	"  mid_grad: quant:8,round=stochastic\n"
	"  head_grad: quant:8,round=stochastic\n"
	"threads: 1         # the server does nearly all of the work\n"
	"log:\n"
	"  dir: @log.dir@   # log.jsonl, checkpoints, model.safetensors\n"
	"# For a server on another host: `splitc keygen`, then\n"
	"# auth: {secret_key: splitc.key, server_key: splits.pub}\n"
	"# Wait for a server that is lost, instead of ending with status 69:\n"
	"# link: {on_server_lost: wait}\n";

/* The same for a network of a Hugging Face folder and a task of GLUE. */
static const char text_template[] =
	"# A run of splitc. `splitc train FILE --print-config` prints every key with what it means.\n"
	"server: @server@   # where splits listens\n"
	"model:\n"
	"  huggingface: @model.huggingface@   # config.json, model.safetensors, tokenizer.json\n"
	"  classes: @model.classes@\n"
	"  tokens: 128      # the most of a row\n"
	"# Between head and tail, which stay here, lies what the server trains.\n"
	"@cut@"
	"data:\n"
	"  kind: @data.kind@\n"
	"  dir: @data.dir@\n"
	"  tokenizer: @data.tokenizer@\n"
	"train:\n"
	"  batch: 32\n"
	"  chunks: 4        # parts of a batch that are on their way at once\n"
	"  epochs: 3\n"
	"  seed: 1\n"
	"  optimizer: {kind: adamw, lr: 2e-5, eps: 1e-6, weight_decay: 0.01}\n"
	"  schedule: {kind: polynomial, warmup_epochs: 0.3}\n"
	"  keep_best: true  # best.safetensors, by what the task is measured by\n"
	"# How the four tensors cross the link: a quarter of their fp32 bytes. `splitc codecs` lists what else there "
	"is.\n"
	"codec:\n"
	"  head_act: quant:8\n"
	"  mid_act: quant:8\n"
	"  mid_grad: quant:8,round=stochastic\n"
	"  head_grad: quant:8,round=stochastic\n"
	"log:\n"
	"  dir: @log.dir@   # log.jsonl, checkpoints, model.safetensors\n"
	"# For a server on another host: `splitc keygen`, then\n"
	"# auth: {secret_key: splitc.key, server_key: splits.pub}\n";

static const char of_folder[] = "huggingface:"; /* what the name of such a network begins with */

static const struct {
	const char *task, *classes;
} tasks[] = {{"cola", "2"},    {"sst2", "2"}, {"mrpc", "2"}, {"qqp", "2"},  {"mnli", "3"},
	     {"mnli-mm", "3"}, {"qnli", "2"}, {"rte", "2"},  {"wnli", "2"}, {"stsb", "1"}};
enum { TASKS = sizeof tasks / sizeof tasks[0] };

static const struct {
	const char *kind, *folder, *classes;
} kinds[] = {
	{"cifar10", "data/cifar-10-batches-bin", "10"},
	{"cifar100", "data/cifar-100-binary", "100"},
	{"images", "data/photos", NULL}, /* counted */
};
enum { KINDS = sizeof kinds / sizeof kinds[0], MOST_SETS = 10 };

struct sets {
	char text[MOST_SETS][PATH_MAX + 32];
	const char *at[MOST_SETS];
	int n;
};

static void set(struct sets *s, const char *key, const char *value)
{
	snprintf(s->text[s->n], sizeof s->text[0], "%s=%s", key, value);
	s->at[s->n] = s->text[s->n];
	s->n++;
}

/* As many as the folder holds; where it cannot be read yet, the default stays. */
static void set_classes(struct sets *s, const char *kind, const char *folder)
{
	const struct sl_set_spec spec = {.source = kind, .split = SL_SPLIT_TRAIN, .dir = folder};
	struct sl_set there;
	struct sl_fail why;
	char classes[24];

	if (sl_set_check(&there, &spec, &why) != SL_OK)
		return;
	snprintf(classes, sizeof classes, "%d", there.classes);
	set(s, "model.classes", classes);
}

/* KIND:FOLDER, KIND, or FOLDER. */
static void set_data(struct sets *s, const char *data)
{
	const char *folder = data;
	int kind = 0;

	for (int i = 0; i < KINDS; i++) {
		size_t len = strlen(kinds[i].kind);

		if (strncmp(data, kinds[i].kind, len) != 0 || (data[len] && data[len] != ':'))
			continue;
		kind = i;
		folder = data[len] && data[len + 1] ? data + len + 1 : kinds[i].folder;
	}
	set(s, "data.kind", kinds[kind].kind);
	set(s, "data.dir", folder);
	set(s, "data.normalize", kinds[kind].classes ? kinds[kind].kind : "imagenet");
	if (kinds[kind].classes)
		set(s, "model.classes", kinds[kind].classes);
	else
		set_classes(s, kinds[kind].kind, folder);
}

/* TASK:FOLDER or TASK. */
static enum sl_err set_task(struct sets *s, const char *data, struct sl_fail *fail)
{
	const size_t len = strcspn(data, ":");
	int i = 0;

	while (i < TASKS && (strncmp(tasks[i].task, data, len) != 0 || tasks[i].task[len]))
		i++;
	if (i == TASKS)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "data of a network of texts are TASK:FOLDER with a task of GLUE, such as cola:glue; "
				   "got \"%.60s\"",
				   data);
	set(s, "data.kind", tasks[i].task);
	set(s, "data.dir", data[len] && data[len + 1] ? data + len + 1 : "glue");
	set(s, "model.classes", tasks[i].classes);
	return SL_OK;
}

static enum sl_err set_cut(struct sets *s, const char *cut, struct sl_fail *fail)
{
	const char *comma = strchr(cut, ',');
	char head[SL_CONF_TEXT];

	if (!comma) {
		set(s, "partition", cut);
		return SL_OK;
	}
	if (comma == cut || !comma[1] || strchr(comma + 1, ',') || comma - cut >= (long)sizeof head)
		return sl_fail_set(fail, SL_ERR_CONFIG,
				   "the cut must be A:-B, such as 1:-1, or HEAD_END,TAIL_BEGIN, such as "
				   "features.0.1,classifier; got \"%.60s\"",
				   cut);
	snprintf(head, sizeof head, "%.*s", (int)(comma - cut), cut);
	set(s, "head_end", head);
	set(s, "tail_begin", comma + 1);
	return SL_OK;
}

static void put_value(FILE *file, const struct sl_conf_client *conf, const char *key)
{
	char value[PATH_MAX + 64];

	if (sl_conf_value_text(&sl_conf_client_schema, conf, key, value, sizeof value) == SL_OK)
		fputs(value, file);
}

static void put_key(FILE *file, const struct sl_conf_client *conf, const char *key)
{
	fprintf(file, "%s: ", key);
	put_value(file, conf, key);
	fputc('\n', file);
}

static void put_cut(FILE *file, const struct sl_conf_client *conf)
{
	if (conf->head_end[0]) {
		put_key(file, conf, "head_end");
		put_key(file, conf, "tail_begin");
	} else {
		put_key(file, conf, "partition");
	}
}

static void put_option(FILE *file, const struct sl_conf_client *conf, const char *key)
{
	if (sl_conf_client_is_idle(conf, key[0] == 'f' ? "model.form" : "model.dropout"))
		return;
	fputs(key[0] == 'f' ? "  form: cifar      # strides for small images; imagenet: torchvision's\n"
			    : "  dropout: 0\n",
	      file);
}

static void put_crop(FILE *file, const struct sl_conf_client *conf)
{
	fputs(sl_conf_client_is_idle(conf, "data.flip") ? "  # transforms: [RandomResizedCrop(32), "
							  "RandomHorizontalFlip()]   # instead of the usual ones\n"
							: "  crop_padding: 4\n  flip: true\n",
	      file);
}

static void expand(FILE *file, const struct sl_conf_client *conf)
{
	char key[SL_CONF_TEXT];

	for (const char *at = conf->model.huggingface[0] ? text_template : template; *at;) {
		size_t len = strcspn(at, "@");

		fwrite(at, 1, len, file);
		at += len;
		if (!*at)
			break;
		len = strcspn(at + 1, "@");
		snprintf(key, sizeof key, "%.*s", (int)len, at + 1);
		at += len + 2;
		if (strcmp(key, "cut") == 0)
			put_cut(file, conf);
		else if (strcmp(key, "crop") == 0)
			put_crop(file, conf);
		else if (strcmp(key, "form") == 0 || strcmp(key, "dropout") == 0)
			put_option(file, conf, key);
		else
			put_value(file, conf, key);
	}
}

/* That the network has this cut, among others. */
static enum sl_err try_plan(const struct sl_conf_client *conf, struct sl_fail *fail)
{
	struct sl_setup setup = {0};
	enum sl_err err = sl_setup_plan(&setup, conf, fail);

	sl_setup_close(&setup);
	return err;
}

/* An answer is neither a line of a file nor an option --set: its key says what is meant. */
static enum sl_err key_alone(struct sl_fail *fail)
{
	static const char place[] = "--set ";
	const struct sl_fail why = *fail;

	if (strncmp(why.text, place, sizeof place - 1) == 0)
		sl_fail_set(fail, why.code, "%s", why.text + sizeof place - 1);
	return why.code;
}

enum sl_err sl_preset_make(char text[SL_PRESET_TEXT], struct sl_conf_client *conf, const struct sl_preset *preset,
			   struct sl_fail *fail)
{
	static const char images[] = "model: {name: mobilenet_v2}\ndata: {dir: x}\n";
	static const char texts[] = "model: {huggingface: x, tokens: 128}\ndata: {dir: x, kind: cola, tokenizer: x}\n";
	const char *folder = preset->model && strncmp(preset->model, of_folder, strlen(of_folder)) == 0
				     ? preset->model + strlen(of_folder)
				     : NULL;
	const char *base = folder ? texts : images;
	struct sets sets = {.n = 0};
	enum sl_err err = set_cut(&sets, preset->cut ? preset->cut : folder ? "2:-1" : "1:-1", fail);
	FILE *file;

	if (err)
		return err;
	if (preset->server)
		set(&sets, "server", preset->server);
	if (folder) {
		set(&sets, "model.huggingface", folder);
		set(&sets, "data.tokenizer", folder);
		err = set_task(&sets, preset->data ? preset->data : tasks[0].task, fail);
	} else {
		if (preset->model)
			set(&sets, "model.name", preset->model);
		set_data(&sets, preset->data ? preset->data : kinds[0].kind);
	}
	set(&sets, "log.dir", preset->log_dir ? preset->log_dir : "runs/demo");
	if (!err)
		err = sl_conf_parse(&sl_conf_client_schema, conf, "init", base, strlen(base), sets.at, sets.n, fail);
	if (!err)
		err = try_plan(conf, fail);
	if (err)
		return key_alone(fail);
	file = fmemopen(text, SL_PRESET_TEXT, "w");
	if (!file)
		return sl_fail_set(fail, SL_ERR_NOMEM, "no memory for the config");
	expand(file, conf);
	if (fclose(file) != 0)
		return sl_fail_set(fail, SL_ERR_CONFIG, "the names in it are too long for a config");
	return sl_conf_parse(&sl_conf_client_schema, conf, "default", text, strlen(text), NULL, 0, fail);
}

bool sl_preset_place(int n, char out[PATH_MAX])
{
	const char *share = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
	int len = -1;

	if (n == 0)
		len = snprintf(out, PATH_MAX, "%s", kinds[0].folder);
	else if (n == 1 && share && share[0] == '/')
		len = snprintf(out, PATH_MAX, "%s/split/cifar-10-batches-bin", share);
	else if (n == 1 && home && home[0] == '/')
		len = snprintf(out, PATH_MAX, "%s/.local/share/split/cifar-10-batches-bin", home);
	return len >= 0 && len < PATH_MAX;
}
