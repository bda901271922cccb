/* Checks the keys of the client's config against each other: which have no effect beside others, and what is
 * refused. */
#include <math.h>
#include <string.h>

#include "common/conf/check.h"
#include "common/conf/check_keys.h"
#include "common/conf/named_codecs.h"

static const char *key_at(int i)
{
	return sl_conf_client_schema.key[i].path;
}

/* Where a key was set: the line of the file; -1: by --set; 0: nowhere. */
static int line_of(const struct sl_conf_client *c, const char *path)
{
	for (int i = 0; i < sl_conf_client_schema.n_key; i++)
		if (strcmp(key_at(i), path) == 0)
			return c->origin.mark[i].line;
	return 0;
}

/* ---- keys that belong to some choices of other keys */

/* clang-format off */
#define ASK(name, answer) static bool name(const struct sl_conf_client *c) { return answer; }
ASK(has_step_schedule, c->train.schedule.kind == SL_CONF_STEP)
ASK(has_points, c->train.schedule.kind == SL_CONF_POINTS)
ASK(has_no_points, !has_points(c))
ASK(has_adapters, c->lora.rank > 0)
ASK(may_stop, c->train.stop.patience > 0)
ASK(has_folds, c->data.split.folds > 0)
ASK(has_no_folds, !has_folds(c))
ASK(splits, sl_conf_splits(c))
ASK(has_own_test_files, !splits(c))
ASK(learns_labels, sl_conf_learns_labels(c))
ASK(guesses_tokens, c->model.head == SL_CONF_MASKED_LM)
ASK(guesses_next, c->model.head == SL_CONF_CAUSAL_LM)
ASK(draws, c->generate.temperature > 0)
ASK(has_classes, c->model.head == SL_CONF_CLASSIFIER)
ASK(has_pictures, c->data.kind < SL_DATA_VOLUMES)
ASK(reads_shards, c->data.kind == SL_DATA_WEBDATASET)
ASK(reads_picture_files, reads_shards(c) || c->data.kind == SL_DATA_IMAGES)
ASK(reads_volumes, c->data.kind == SL_DATA_VOLUMES)
ASK(has_no_volumes, !reads_volumes(c))
ASK(cuts_patches, reads_volumes(c) && !c->data.size.n)
ASK(reads_table, c->data.kind == SL_DATA_CSV)
ASK(has_ids, c->data.ids.n > 0)
ASK(reads_texts, c->data.kind >= SL_DATA_COLA)
ASK(reads_own_texts, c->data.kind == SL_DATA_TEXT)
ASK(has_cifar_augmentation, !reads_picture_files(c) && !c->data.transforms.n)
ASK(reads_glue, c->data.kind == SL_DATA_GLUE || (reads_texts(c) && strcmp(c->data.task, sl_conf_data_kinds[c->data.kind]) == 0))
ASK(has_labels, c->data.labels[0])
ASK(names_pictures, c->data.kind == SL_DATA_IMAGES && (c->model.task != SL_CONF_CLASSES || has_labels(c)))
ASK(learns_pixels, c->model.task == SL_CONF_PIXELS)
ASK(labels_pictures, (c->data.kind == SL_DATA_IMAGES || (reads_volumes(c) && c->data.size.n)) && !learns_pixels(c) && !sl_conf_lacks_labels(c))
ASK(reads_csv, reads_table(c) || (names_pictures(c) && !learns_pixels(c)) || (reads_volumes(c) && has_labels(c)))
ASK(learns_numbers, c->model.task == SL_CONF_NUMBERS || (c->model.task == SL_CONF_CLASSES && c->model.classes == 1))
ASK(has_sources, c->data.also.n || c->also)
ASK(has_label_column, reads_table(c) || reads_own_texts(c) || names_pictures(c) || cuts_patches(c) || (reads_volumes(c) && has_labels(c)))
ASK(splits_by_name, reads_picture_files(c) || has_label_column(c) || reads_volumes(c))
ASK(names_train_files, c->data.kind != SL_DATA_IMAGES && !reads_volumes(c) && !reads_table(c) && (!reads_texts(c) || reads_own_texts(c)))
ASK(names_test_files, reads_shards(c) || reads_own_texts(c))
#define NEED(key, met, why, ...) {key, met, 0, why "; leave this key out", {__VA_ARGS__}}
#define OF_NETWORKS(key, has)    {key, NULL, has, NULL, {"model.name"}}
#define DATA         "data.kind", "data.transforms"
#define SCHEDULE     "train.schedule.kind"
#define LABELS       "belongs to train.loss: labels"
#define STEP         "belongs to train.schedule.kind: step"
#define NO_CLASSES   "belongs to classifiers, and model.head is not one"
#define CAUSAL       "belongs to model.head: causal_lm"
#define DRAWN        "needs a generate.temperature above 0: at 0 the likeliest token is taken"
#define NO_PICTURES  "is of pictures, and this data.kind has none"
#define TRANSFORMED  "belongs to data.kind: cifar10 and cifar100 without data.transforms; list such steps in data.transforms"
#define BY_POINTS    "train.schedule.points sets the learning rate of every step"
#define PICTURE_FILE "belongs to data.kind: images and webdataset"
#define VOLUMES      "belongs to data.kind: volumes"
#define NO_STEPS     "is of pictures; volumes are scaled by data.intensity, and an evaluation takes each voxel once"
#define TEXTS        "belongs to texts (data.kind: text, or a task of GLUE)"

/* A key is idle, and refused if it was set, unless `met` holds or the network has one of `has`. `why` is the
 * refusal. If --set has set a key of `by`, an idle key of the file is ignored: it was meant for the file's own
 * choice. */
static const struct need {
	const char *key; /* a path; with a dot at its end: all keys that begin so */
	bool (*met)(const struct sl_conf_client *c);
	unsigned has; /* SL_NETWORK_…; 0: any */
	const char *why;
	const char *by[2];
} needs[] = {
	OF_NETWORKS("model.form", SL_NETWORK_FORM),
	OF_NETWORKS("model.init_bn0", SL_NETWORK_BN0),
	OF_NETWORKS("model.dropout", SL_NETWORK_DROPOUT),
	OF_NETWORKS("model.image", SL_NETWORK_IMAGES),
	OF_NETWORKS("data.normalize", SL_NETWORK_IMAGES),
	OF_NETWORKS("data.transforms", SL_NETWORK_IMAGES),
	OF_NETWORKS("data.test_transforms", SL_NETWORK_IMAGES),
	OF_NETWORKS("model.vocab", SL_NETWORK_VOCAB),
	OF_NETWORKS("model.tokens", SL_NETWORK_TOKENS),
	OF_NETWORKS("model.head", SL_NETWORK_HEAD),
	OF_NETWORKS("data.pad", SL_NETWORK_TOKENS),
	OF_NETWORKS("data.group_by_length", SL_NETWORK_TOKENS),
	OF_NETWORKS("train.mixup", SL_NETWORK_IMAGES | SL_NETWORK_ROWS),
	OF_NETWORKS("model.features", SL_NETWORK_ROWS),
	OF_NETWORKS("model.width", SL_NETWORK_WIDTH),
	{"lora.", has_adapters, 0, "needs lora.rank", {"lora.rank"}},
	NEED("model.classes", has_classes, NO_CLASSES, "model.head"),
	NEED("data.sampling", has_classes, NO_CLASSES, "model.head"),
	NEED("data.label", has_classes, NO_CLASSES, "model.head"),
	NEED("train.metrics", has_classes, NO_CLASSES, "model.head"),
	NEED("train.best_metric", has_classes, NO_CLASSES, "model.head"),
	NEED("data.mask_rate", guesses_tokens, "belongs to model.head: masked_lm", "model.head"),
	NEED("data.pack", guesses_next, CAUSAL, "model.head"),
	NEED("data.loss_on", guesses_next, CAUSAL, "model.head"),
	NEED("data.end", guesses_next, CAUSAL, "model.head"),
	NEED("generate.", guesses_next, CAUSAL, "model.head"),
	NEED("generate.top_k", draws, DRAWN, "generate.temperature"),
	NEED("generate.top_p", draws, DRAWN, "generate.temperature"),
	NEED("data.crop_padding", has_pictures, NO_PICTURES, DATA),
	NEED("data.crop_padding", has_cifar_augmentation, TRANSFORMED, DATA),
	NEED("data.flip", has_pictures, NO_PICTURES, DATA),
	NEED("data.flip", has_cifar_augmentation, TRANSFORMED, DATA),
	NEED("data.on_bad_sample", reads_picture_files, PICTURE_FILE, DATA),
	NEED("data.max_pixels", reads_picture_files, PICTURE_FILE, DATA),
	NEED("data.channels", reads_picture_files, PICTURE_FILE, DATA),
	NEED("data.bits", reads_picture_files, PICTURE_FILE, DATA),
	NEED("data.jpeg", reads_picture_files, PICTURE_FILE, DATA),
	NEED("data.window", reads_picture_files, PICTURE_FILE, DATA),
	NEED("data.exif", reads_picture_files, PICTURE_FILE, DATA),
	NEED("data.train_files", names_train_files, "this data.kind has files of fixed names", DATA),
	NEED("data.test_files", names_test_files, "belongs to data.kind: webdataset and text", DATA),
	NEED("data.task", reads_glue, "belongs to data.kind: glue", DATA),
	NEED("data.label", has_label_column, "belongs to data.kind: csv and text, and to pictures and volumes with data.labels or another model.task than classes", DATA),
	NEED("data.scale_label", learns_numbers, "belongs to model.task: numbers", "model.task"),
	NEED("data.labels", labels_pictures, "belongs to data.kind: images, where these data have labels, and not one for each pixel; and to volumes with data.size", DATA),
	NEED("data.label_id", has_labels, "needs data.labels", "data.labels"),
	NEED("data.masks", learns_pixels, "belongs to model.task: pixels", DATA),
	NEED("data.normalize", has_no_volumes, NO_STEPS, DATA),
	NEED("data.test_transforms", has_no_volumes, NO_STEPS, DATA),
	NEED("data.patch", reads_volumes, VOLUMES, DATA),
	NEED("data.size", reads_volumes, VOLUMES, DATA),
	NEED("data.patches", cuts_patches, VOLUMES " with data.patch", DATA),
	NEED("data.foreground", cuts_patches, VOLUMES " with data.patch", DATA),
	NEED("data.spacing", reads_volumes, VOLUMES, DATA),
	NEED("data.axes", reads_volumes, VOLUMES, DATA),
	NEED("data.intensity", reads_volumes, VOLUMES, DATA),
	NEED("data.cache", reads_volumes, VOLUMES, DATA),
	NEED("data.ignore", reads_table, "belongs to data.kind: csv", DATA),
	NEED("data.dates", reads_table, "belongs to data.kind: csv", DATA),
	NEED("data.ids", reads_table, "belongs to data.kind: csv", DATA),
	NEED("data.buckets", has_ids, "belongs to data.ids", "data.ids"),
	NEED("data.missing", reads_table, "belongs to data.kind: csv", DATA),
	NEED("data.separator", reads_csv, "belongs to data.kind: csv, and to pictures and volumes that a CSV file lists", DATA),
	NEED("data.decimal", reads_csv, "belongs to data.kind: csv, and to pictures and volumes that a CSV file lists", DATA),
	NEED("data.like", reads_table, "belongs to data.kind: csv", DATA),
	NEED("data.inputs", has_sources, "belongs to data.also", "data.also"),
	NEED("data.tokenizer", reads_texts, TEXTS, DATA),
	NEED("data.max_length", reads_texts, TEXTS, DATA),
	NEED("data.columns", reads_own_texts, "belongs to data.kind: text", DATA),
	NEED("data.token_cache", reads_texts, TEXTS, DATA),
	NEED("train.schedule.every_epochs", has_step_schedule, STEP, SCHEDULE),
	NEED("train.schedule.milestones", has_step_schedule, STEP, SCHEDULE),
	NEED("train.schedule.gamma", has_step_schedule, STEP, SCHEDULE),
	NEED("train.schedule.points", has_points, "belongs to train.schedule.kind: points", SCHEDULE),
	NEED("train.optimizer.lr", has_no_points, BY_POINTS, SCHEDULE),
	NEED("train.schedule.warmup_epochs", has_no_points, BY_POINTS, SCHEDULE),
	NEED("train.schedule.warmup", has_no_points, BY_POINTS, SCHEDULE),
	NEED("train.schedule.end_lr", has_no_points, BY_POINTS, SCHEDULE),
	NEED("data.split.train", has_no_folds, "data.split.folds say which samples train", "data.split.folds"),
	NEED("data.split.val", has_no_folds, "data.split.folds say which samples validate", "data.split.folds"),
	NEED("data.split.fold", has_folds, "needs data.split.folds", "data.split.folds"),
	NEED("data.split.by", splits_by_name, "belongs to data.kind: csv, text, images, volumes and webdataset", DATA),
	NEED("data.split.by", splits, "needs data.split.train or data.split.folds", "data.split.train"),
	NEED("data.split.seed", splits, "needs data.split.train or data.split.folds", "data.split.train"),
	NEED("data.test_files", has_own_test_files, "data.split takes test data from the training files", "data.split.train"),
	NEED("train.stop.metric", may_stop, "needs train.stop.patience", "train.stop.patience"),
	NEED("train.stop.min_delta", may_stop, "needs train.stop.patience", "train.stop.patience"),
	NEED("train.label_smoothing", learns_labels, LABELS, "train.loss"),
	NEED("train.keep_best", learns_labels, LABELS, "train.loss"),
	NEED("train.metrics", learns_labels, LABELS, "train.loss"),
};
/* clang-format on */
enum { N_NEEDS = sizeof needs / sizeof needs[0], NAMES = 161 };

/* The names of the networks that have one of `has`, with commas between them. */
static const char *names_with(unsigned has, char text[NAMES])
{
	size_t used = 0;

	for (const struct sl_network *n = sl_networks; n->name && used < NAMES; n++)
		if (n->has & has)
			used += (size_t)snprintf(text + used, NAMES - used, "%s%s", used ? ", " : "", n->name);
	return text;
}

static bool is_of(const struct need *n, const char *path)
{
	const size_t len = strlen(n->key);

	if (n->key[len - 1] != '.')
		return strcmp(n->key, path) == 0;
	return strncmp(n->key, path, len) == 0 && strcmp(n->by[0], path) != 0;
}

static bool is_met(const struct need *n, const struct sl_conf_client *c)
{
	/* for an unknown network, the name is refused instead */
	if (n->has)
		return (sl_network_has(c->model.name) & n->has) || !sl_network_has(c->model.name);
	return n->met(c);
}

static bool has_unmet_need(const struct sl_conf_client *c, const char *path)
{
	for (int i = 0; i < N_NEEDS; i++)
		if (is_of(&needs[i], path) && !is_met(&needs[i], c))
			return true;
	return false;
}

static bool was_chosen_by_set(const struct need *n, const struct sl_conf_client *c)
{
	for (size_t i = 0; i < sizeof n->by / sizeof n->by[0]; i++)
		if (n->by[i] && line_of(c, n->by[i]) < 0)
			return true;
	return false;
}

/* Refuses the first key that was set and has an unmet need; NULL: there is none. */
static const char *check_needs(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	char names[NAMES];

	for (const struct need *n = needs; n < needs + N_NEEDS; n++) {
		const bool met = is_met(n, c), put_aside = was_chosen_by_set(n, c);

		for (int i = 0; i < sl_conf_client_schema.n_key && !met; i++) {
			const int line = is_of(n, key_at(i)) ? c->origin.mark[i].line : 0;

			if (!line || (line > 0 && put_aside))
				continue;
			if (n->has)
				return sl_conf_say(why, key_at(i),
						   "%.48s has none: it is of %.160s; leave this key out", c->model.name,
						   names_with(n->has, names));
			return sl_conf_say(why, key_at(i), "%s", n->why);
		}
	}
	return NULL;
}

bool sl_conf_client_idle(const void *conf, const char *path)
{
	const struct sl_conf_client *c = conf;

	return (c->train.phases.n && strcmp(path, "train.epochs") == 0) || has_unmet_need(c, path) ||
	       sl_agreed_is_idle(&c->agreed, path);
}

bool sl_conf_client_is_idle(const struct sl_conf_client *c, const char *path)
{
	return sl_conf_client_idle(c, path);
}

/* Checks that a file or folder (`path`) and the network's name (`word`) are given together; an empty name becomes
 * `word`. NULL: they are. Else `path`: the path is to blame or, if it is "", model.name. */
static const char *check_source(const char *path, char name[SL_CONF_TEXT], const char *word, const char *what,
				char why[SL_CONF_WHY])
{
	if (path[0] && !name[0])
		snprintf(name, SL_CONF_TEXT, "%s", word);
	if (!path[0] == (strcmp(name, word) != 0))
		return NULL;
	if (path[0])
		return sl_conf_say(why, path, "stands instead of model.name: give one of them");
	return sl_conf_say(why, path, "needs the %s in model.%s", what, word);
}

static const char *check_model(struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	static const char *const word[] = {SL_CONF_NETWORK, SL_CONF_NETWORK_ROWS, SL_CONF_NETWORK_TEXTS};
	/* labels alone may be in a table, whatever the network takes: model.features says that it is rows */
	const bool rows = !sl_conf_lacks_input(c) || line_of(c, "model.features");
	const int input = c->data.kind == SL_DATA_CSV && rows                                   ? 1
			  : c->data.kind >= SL_DATA_COLA || c->data.kind == SL_DATA_MADE_TOKENS ? 2
												: 0;
	const char *blame = check_source(c->model.huggingface, c->model.name, SL_CONF_HUGGINGFACE, "folder", why);

	if (blame)
		return blame[0] ? "model.huggingface" : "model.name";
	blame = check_source(c->model.network, c->model.name, word[input], "file", why);
	return !blame ? NULL : blame[0] ? "model.network" : "model.name";
}

static const char *check_lora(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	if (!c->lora.rank || c->model.huggingface[0])
		return NULL;
	return sl_conf_say(why, "lora.rank", "adapters belong to networks of model.huggingface");
}

/* Replaces the kind `glue` by that of its task. */
static const char *choose_task(struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	if (c->data.kind != SL_DATA_GLUE)
		return NULL;
	for (int kind = SL_DATA_COLA; kind <= SL_DATA_WNLI; kind++)
		if (strcmp(c->data.task, sl_conf_data_kinds[kind]) == 0) {
			c->data.kind = (enum sl_conf_data_kind)kind;
			return NULL;
		}
	return sl_conf_say(
		why, "data.task",
		"glue needs a task: cola, sst2, mrpc, qqp, mnli, mnli-mm, qnli, rte, stsb or wnli, got \"%.60s\"",
		c->data.task);
}

/* Refuses keys of another optimizer. If --set chose the kind, the file's keys of another kind are ignored, and the
 * file's lr was meant for that kind. */
static const char *check_kind(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const bool by_set = line_of(c, "train.optimizer.kind") < 0;
	const char *kind = sl_agreed_optimizers[c->agreed.optimizer.kind];
	const bool sgd = c->agreed.optimizer.kind == SL_CONF_SGD;
	const char *lr_is = line_of(c, "train.optimizer.lr") ? NULL : "the default of";

	for (int i = 0; i < sl_conf_client_schema.n_key; i++) {
		const bool idle_here = sl_agreed_is_idle(&c->agreed, key_at(i)) && !sl_agreed_is_share(key_at(i));
		const int line = idle_here ? c->origin.mark[i].line : 0;

		if (line > 0 && by_set) {
			if (line_of(c, "train.optimizer.lr") > 0)
				lr_is = "the file's";
		} else if (line) {
			return sl_conf_say(why, key_at(i), "%s does not have this key: it belongs to %s", kind,
					   sgd ? "adam and adamw" : "sgd");
		}
	}
	if (sgd || !lr_is || c->train.schedule.kind == SL_CONF_POINTS)
		return NULL;
	return sl_conf_say(why, "train.optimizer.kind",
			   "%s needs a train.optimizer.lr%s: %s %g is meant for sgd; PyTorch's default for %s is 0.001",
			   kind, by_set ? " by --set, too" : "", lr_is, c->train.lr, kind);
}

static const char *check_schedule(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	if (has_points(c))
		return sl_conf_check_points(&c->train.schedule.points, why) ? "train.schedule.points" : NULL;
	if (c->train.schedule.kind == SL_CONF_STEP) {
		if (!c->train.schedule.milestones.n == !c->train.schedule.every_epochs)
			return sl_conf_say(
				why, "train.schedule.kind",
				"step needs train.schedule.every_epochs or train.schedule.milestones, and not both");
		if (sl_conf_check_epochs(&c->train.schedule.milestones, why))
			return "train.schedule.milestones";
	}
	if (c->train.schedule.kind == SL_CONF_EXPONENTIAL && !(c->train.schedule.end_lr > 0))
		return sl_conf_say(why, "train.schedule.end_lr", "exponential needs an end_lr above 0");
	if (c->train.schedule.end_lr > c->train.lr && c->train.schedule.kind != SL_CONF_EXPONENTIAL)
		return sl_conf_say(why, "train.schedule.end_lr", "must be at most train.optimizer.lr (%g), got %g",
				   c->train.lr, c->train.schedule.end_lr);
	return NULL;
}

/* Checks what a vertical group excludes. */
static const char *check_vertical(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	static const char rows[] =
		"does not go with share.mode: vertical: all members need the same rows in the same order";
	const struct {
		bool bad;
		const char *key, *why;
	} rule[] = {
		{strcmp(c->data.partition, "files") != 0, "data.partition", rows},
		{c->data.sampling == SL_SAMPLING_BALANCED, "data.sampling", rows},
		{c->data.on_bad_sample == SL_BAD_SAMPLE_SKIP, "data.on_bad_sample", rows},
		{c->data.split.by[0] != 0, "data.split.by", rows},
		{c->data.id[0] && !reads_table(c) &&
			 (c->data.kind != SL_DATA_IMAGES || strcmp(c->data.id, "stem") != 0),
		 "data.id", "must be a column of data.kind: csv, or stem with data.kind: images"},
		{c->data.id[0] && !c->share_secret[0] && !c->data.aligned[0], "data.id",
		 "needs share.secret or data.aligned: the server could try names of rows otherwise"},
		{c->data.aligned[0] && !c->data.id[0], "data.aligned",
		 "names rows: it needs data.id, which says what names one"},
		{c->data.aligned[0] && c->share_secret[0], "share.secret",
		 "does not go with data.aligned, whose file has a secret: leave this key out"},
		{c->peers.n && c->peers.n != c->agreed.share.clients, "share.peers", "needs a key for each member"},
		{c->peers.n > 2, "share.peers", "splitc align finds the rows of two members, not of more"},
		{c->inputs.n > 1, "share.inputs", "must name one input: a member gives one"},
		{c->train.mixup > 0, "train.mixup",
		 "does not go with share.mode: vertical: one member mixes rows, and the other labels"},
		{c->train.keep_best, "train.keep_best",
		 "does not go with share.mode: vertical: only one member knows which evaluation is best"},
		{!sl_conf_learns_labels(c), "train.loss", "share.mode: vertical learns labels"},
	};

	if (((c->data.id[0] && !has_sources(c)) || c->data.aligned[0]) && !sl_agreed_is_vertical(&c->agreed))
		return sl_conf_say(why, c->data.aligned[0] ? "data.aligned" : "data.id",
				   "belongs to share.mode: vertical%s; leave this key out",
				   c->data.aligned[0] ? "" : " or data.also");
	for (size_t i = 0; i < sizeof rule / sizeof rule[0] && sl_agreed_is_vertical(&c->agreed); i++)
		if (rule[i].bad)
			return sl_conf_say(why, rule[i].key, "%s", rule[i].why);
	return NULL;
}

/* Checks the keys that belong to a group. */
static const char *check_share(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	for (int i = 0; i < sl_conf_client_schema.n_key; i++)
		if (!c->agreed.share.group[0] && sl_agreed_is_share(key_at(i)) && c->origin.mark[i].line)
			return sl_conf_say(why, key_at(i), "needs the name of a group in share.group");
	if (!c->agreed.share.group[0] && strcmp(c->data.partition, "files") != 0)
		return sl_conf_say(why, "data.partition", "belongs to a group: it needs a name in share.group");
	if (strcmp(c->data.partition, "files") != 0 && strstr(c->data.dir, "%m"))
		return sl_conf_say(
			why, "data.partition",
			"divides one set that all members have, and data.dir has %%m, a set for each member: "
			"leave one of them out");
	for (int i = 0; i < sl_conf_client_schema.n_key; i++) {
		const char *mode = sl_agreed_other_mode(&c->agreed, key_at(i));

		if (!c->agreed.share.group[0] || !mode || !c->origin.mark[i].line)
			continue;
		return sl_conf_say(why, key_at(i), "belongs to share.mode: %s; this group's is %s: leave this key out",
				   mode, sl_agreed_modes[c->agreed.share.mode]);
	}
	if (c->share_secret[0] && !sl_agreed_is_vertical(&c->agreed) && !sl_agreed_shares_ends(&c->agreed))
		return sl_conf_say(why, "share.secret",
				   "belongs to share.mode: vertical, and to heads and tails that the server stores: of "
				   "share.ends: step or round; leave this key out");
	if (!sl_agreed_shares_ends(&c->agreed)) {
		static const char *const of_ends[] = {"codec.end_grad", "codec.end_mean", "share.layers"};

		for (size_t i = 0; i < sizeof of_ends / sizeof of_ends[0]; i++)
			if (line_of(c, of_ends[i]))
				return sl_conf_say(
					why, of_ends[i],
					"belongs to shared heads and tails: it needs share.ends: step or round");
	}
	if (c->batches.n && c->batches.n != c->agreed.share.clients)
		return sl_conf_say(why, "share.batches",
				   "needs a number for each of the %d members (share.clients), got %d",
				   c->agreed.share.clients, c->batches.n);
	if (c->agreed.share.epoch_steps && c->agreed.share.mode == SL_SHARE_SERIAL)
		return sl_conf_say(
			why, "share.epoch_steps",
			"belongs to share.mode: sync and rounds; in serial an epoch has all batches: share.batches");
	if ((c->batches.n || c->agreed.share.epoch_steps) && strcmp(c->data.partition, "files") != 0)
		return sl_conf_say(why, c->batches.n ? "share.batches" : "share.epoch_steps",
				   "belongs to data.partition: files; all members know how others are dealt out");
	if (c->data.scale_label == SL_LABEL_SCALED && sl_agreed_shares_ends(&c->agreed))
		return sl_conf_say(why, "data.scale_label",
				   "members that share a tail would scale their numbers differently: scale them in the "
				   "files, or take share.ends: private");
	if (c->agreed.share.group[0] && c->train.chunk_loss == SL_CHUNK_LOSS_SUM)
		return sl_conf_say(why, "train.chunk_loss",
				   "sum is not possible in a group (share.group): the loss is a mean");
	return NULL;
}

/* An audit repeats a whole step, and a member sees only its own part of it. */
static const char *check_audit(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	if (c->train.audit_every && c->agreed.ema > 0)
		return sl_conf_say(why, "train.audit.every",
				   "is not possible with train.ema: the server gives averages in place of the weights "
				   "that learn");
	if (!c->train.audit_every || !c->agreed.share.group[0])
		return NULL;
	return sl_conf_say(why, "train.audit.every",
			   "is not possible in a group (share.group): a member cannot repeat the others' part");
}

/* Checks what phases need, and what they exclude. */
static const char *check_phases(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	const int epochs = line_of(c, "train.epochs");

	if (!c->train.phases.n)
		return NULL;
	if (epochs > 0 ? line_of(c, "train.phases") > 0 : epochs < 0)
		return sl_conf_say(why, "train.epochs",
				   "train.phases say how many epochs each of them has; leave this key out");
	if (c->train.max_steps)
		return sl_conf_say(why, "train.max_steps", "belongs to a run without train.phases; leave this key out");
	if (!c->train.checkpoint_every)
		return sl_conf_say(why, "train.checkpoint_every",
				   "train.phases need checkpoints: a phase goes on from the last one's");
	if (c->agreed.share.group[0])
		return sl_conf_say(why, "train.phases", "is not possible in a group (share.group)");
	if (!learns_labels(c))
		return sl_conf_say(why, "train.phases", "belongs to train.loss: labels; leave this key out");
	for (int i = 0; i < c->train.phases.n; i++) {
		struct sl_conf_phase p;

		if (!sl_conf_phase_read(c->train.phases.item[i], &p))
			return "train.phases";
		if ((p.chunks ? p.chunks : c->agreed.chunks) > (p.batch ? p.batch : c->agreed.batch))
			return sl_conf_say(why, "train.phases", "phase %d has more chunks than its batch has samples",
					   i + 1);
	}
	return NULL;
}

/* Early stopping excludes what needs the number of steps beforehand: groups and phases. */
static const char *check_stop(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	if (!c->train.stop.patience)
		return NULL;
	if (c->agreed.share.group[0] || c->train.phases.n)
		return sl_conf_say(why, "train.stop.patience", "is not possible %s: leave train.stop out",
				   c->train.phases.n ? "with train.phases" : "in a group (share.group)");
	if (!c->train.eval_every)
		return sl_conf_say(why, "train.stop.patience",
				   "goes by evaluations after epochs: train.eval_every must be 1 or more");
	return NULL;
}

static const char *check_agreed(const struct sl_conf_client *c, char why[SL_CONF_WHY])
{
	return sl_agreed_check(&c->agreed, why);
}

static const char *check_link(const struct sl_conf_link *link, char why[SL_CONF_WHY])
{
	if (link->window_bytes < link->part_bytes)
		return sl_conf_say(why, "link.window_bytes", "must not be smaller than link.part_bytes (%lld bytes)",
				   (long long)link->part_bytes);
	if (link->timeout_ms < 2 * link->heartbeat_ms)
		return sl_conf_say(why, "link.timeout_ms", "must be at least twice link.heartbeat_ms (%d), got %d",
				   link->heartbeat_ms, link->timeout_ms);
	return NULL;
}

/* Names of codecs become what they stand for: the server and the log know only that. */
static void name_codecs(struct sl_conf_client *c)
{
	for (int dir = 0; dir < 4; dir++) {
		char *codec = c->agreed.codec[dir];
		const char *is = sl_named_codec(codec, c->data.kind, dir);

		if (is != codec)
			snprintf(codec, sizeof c->agreed.codec[dir], "%s", is);
	}
}

const char *sl_conf_client_finish(void *conf, char why[SL_CONF_WHY])
{
	static const char *(*const checks[])(const struct sl_conf_client *c, char why[SL_CONF_WHY]) = {
		check_needs,  sl_conf_check_task, sl_conf_check_data, check_kind,
		check_agreed, check_share,        check_vertical,     check_schedule,
		check_phases, check_stop,         check_audit,        sl_conf_check_privacy};
	struct sl_conf_client *c = conf;
	const char *blame = check_model(c, why);

	if (c->agreed.share.mode == SL_SHARE_ROUNDS && !line_of(c, "share.ends"))
		c->agreed.share.ends = SL_ENDS_ROUND; /* in rounds, heads and tails can only be shared so */
	if (c->agreed.share.group[0] && !line_of(c, "link.on_server_lost"))
		c->link.on_server_lost = SL_LOST_WAIT; /* a member comes back by itself */
	if (c->agreed.share.mode == SL_SHARE_VERTICAL && !line_of(c, "share.ends"))
		c->agreed.share.ends = SL_ENDS_PRIVATE;
	if (c->model.task != SL_CONF_CLASSES && !line_of(c, "model.classes"))
		c->model.classes = c->data.label.n;
	name_codecs(c);
	if (!blame)
		blame = check_lora(c, why);
	if (!blame)
		blame = choose_task(c, why);
	for (size_t i = 0; i < sizeof checks / sizeof checks[0] && !blame; i++)
		blame = checks[i](c, why);
	if (blame)
		return blame;
	if (c->agreed.precision == SL_CONF_FP16 && c->train.on_nan != SL_NAN_SKIP)
		return sl_conf_say(
			why, "train.precision",
			"fp16 needs train.on_nan: skip, since steps whose scaled gradients overflow are left out; "
			"bf16 does not");
	if (c->model.partial && !c->model.weights[0] && !c->model.huggingface[0])
		return sl_conf_say(why, "model.partial", "needs a file in model.weights");
	if ((c->noise.head_act > 0 || c->noise.mid_grad > 0) != (c->noise.key[0] != 0))
		return sl_conf_say(
			why, "noise.key",
			"noise needs a key file (splitc keygen --out FILE), and head_act or mid_grad above 0");
	if (c->log.tensorboard && !c->log.dir[0])
		return sl_conf_say(why, "log.tensorboard", "needs a folder in log.dir");
	if (c->web && !c->metrics[0])
		return sl_conf_say(why, "web", "needs an address in metrics, such as 127.0.0.1:9570");
	if (!c->auth.secret_key[0] != !c->auth.server_key[0])
		return sl_conf_say(why, c->auth.secret_key[0] ? "auth.secret_key" : "auth.server_key",
				   "auth needs both secret_key and server_key, or neither");
	if (!sl_conf_default_control(c->control, "splitc", c->log.dir))
		return sl_conf_say(why, "control",
				   "$XDG_RUNTIME_DIR is too long for a socket: give a path of at most %d bytes",
				   SL_CONF_SOCKET_PATH - 1);
	blame = check_link(&c->link, why);
	return blame ? blame : sl_conf_check_also(c, why); /* last: what is left to be wrong is a source's own */
}
