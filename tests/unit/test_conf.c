/* Both configs: defaults, ready examples, every kind of error with its place, --set, and print → load → print. */

#include "common/conf/conf.h"
#include "common/conf/named_codecs.h"
#include "tests/support/unit.h"

#define BASE "model: {name: mobilenet_v2}\ndata: {dir: data}\n"

static enum sl_err parse(struct sl_conf_client *c, const char *text, const char *set, struct sl_fail *fail)
{
	return sl_conf_parse(&sl_conf_client_schema, c, "c.yaml", text, strlen(text), &set, set != NULL, fail);
}

static void defaults(void **state)
{
	struct sl_conf_client c;
	struct sl_fail fail;
	char control[SL_CONF_SOCKET_PATH];

	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	assert_int_equal(parse(&c, BASE, NULL, &fail), SL_OK);
	assert_string_equal(c.server, "tcp://127.0.0.1:5570");
	assert_string_equal(c.model.name, "mobilenet_v2");
	assert_string_equal(c.partition, "1:-1");
	assert_true(c.model.width == 1.0);
	assert_true(c.train.lr == 0.1);
	assert_int_equal(c.agreed.batch, 128);
	assert_int_equal(c.link.part_bytes, 1 << 20);
	assert_int_equal(c.link.window_bytes, 64 << 20);
	assert_int_equal(c.data.train_files.n, 0);
	assert_true(c.data.flip);
	assert_int_equal(c.log.level, SL_LOG_INFO);
	for (int i = 0; i < 4; i++)
		assert_string_equal(c.agreed.codec[i], "none");
	/* The default socket depends on log.dir, in any spelling: two runs do not share one. */
	assert_true(strncmp(c.control, "/run/user/7/splitc-", 19) == 0 && strlen(c.control) == 19 + 16 + 5);
	assert_true(sl_conf_is_default(&sl_conf_client_schema, &c, "control"));
	strcpy(control, c.control);
	assert_int_equal(parse(&c, BASE "log: {dir: ./x//../runs/}\n", NULL, &fail), SL_OK);
	assert_string_equal(c.control, control);
	assert_int_equal(parse(&c, BASE "log: {dir: other}\n", NULL, &fail), SL_OK);
	assert_string_not_equal(c.control, control);
	assert_int_equal(parse(&c, BASE "control: /a.sock\n", NULL, &fail), SL_OK);
	assert_false(sl_conf_is_default(&sl_conf_client_schema, &c, "control"));
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(parse(&c, BASE, NULL, &fail), SL_OK);
	assert_non_null(strstr(c.control, "splitc"));
	assert_null(strstr(c.control, "/tmp/splitc")); /* where every user can make a socket */
	/* As editors on other systems write files: a byte order mark in front, CRLF at the ends of lines. */
	assert_int_equal(parse(&c, "\xef\xbb\xbfmodel: {name: mobilenet_v2}\r\ndata: {dir: data}\r\n", NULL, &fail),
			 SL_OK);
}

static void values_and_places(void **state)
{
	static const char text[] = "# a comment\n"
				   "model:\n  name: mobilenet_v2\n  form: imagenet\n"
				   "data:\n  dir: /d\n  train_files: [a.bin, \"b,c.bin\"]\n  flip: false\n"
				   "train:\n  batch: 64\n  optimizer: {lr: 5e-3, nesterov: true}\n"
				   "link: {part_bytes: \"64 KiB\"}\n"
				   "codec:\n  mid_act: topk:0.2|quant:8\n"
				   "log:\n  level: debug\n"
				   "head_end:\nthreads: 2\n";
	struct sl_conf_client c;
	struct sl_fail fail;

	assert_int_equal(parse(&c, text, NULL, &fail), SL_OK);
	assert_int_equal(c.model.form, SL_FORM_IMAGENET);
	assert_int_equal(c.data.train_files.n, 2);
	assert_string_equal(c.data.train_files.item[1], "b,c.bin");
	assert_false(c.data.flip);
	assert_true(c.train.lr == 0.005);
	assert_true(c.agreed.optimizer.nesterov);
	assert_int_equal(c.link.part_bytes, 65536);
	assert_string_equal(c.agreed.codec[0], "none");
	assert_string_equal(c.agreed.codec[1], "topk:0.2|quant:8");
	assert_int_equal(c.log.level, SL_LOG_DEBUG);
	assert_int_equal(c.threads, 2);
	assert_int_equal(sl_conf_client_fail(&c, "codec.mid_act", &fail, "no such codec"), SL_ERR_CONFIG);
	assert_string_equal(fail.text, "c.yaml:14:12: codec.mid_act: no such codec");
	(void)sl_conf_client_fail(&c, "partition", &fail, "outside");
	assert_string_equal(fail.text, "c.yaml: partition (default): outside");
	assert_int_equal(parse(&c, text, "codec.mid_act=bad", &fail), SL_OK);
	(void)sl_conf_client_fail(&c, "codec.mid_act", &fail, "no such codec");
	assert_string_equal(fail.text, "--set codec.mid_act: no such codec");
}

/* Commas within brackets do not separate items, in every form of a list. */
static void steps_with_commas(void **state)
{
	static const char *const in_yaml[] = {
		"[RandomCrop(32, padding=4), \"Pad((1, 2))\", Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))]",
		"\n    - RandomCrop(32, padding=4)\n    - Pad((1, 2))\n    - Normalize((0.5, 0.5, 0.5), (0.2, 0.2, "
		"0.2))",
	};
	static const char *const by_set[] = {
		"data.transforms=RandomCrop(32, padding=4),Pad((1, 2)),Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))",
		"data.transforms=[RandomCrop(32, padding=4), \"Pad((1, 2))\", Normalize((0.5, 0.5, 0.5), (0.2, 0.2, "
		"0.2))]",
	};

	for (int i = 0; i < 4; i++) {
		struct sl_conf_client c;
		struct sl_fail fail;
		char text[400];

		snprintf(text, sizeof text,
			 "model: {name: mobilenet_v2}\ndata:\n  dir: /d\n  test_transforms: [CenterCrop(32)]\n  "
			 "transforms: %s\n",
			 in_yaml[i < 2 ? i : 0]);
		if (parse(&c, text, i < 2 ? NULL : by_set[i - 2], &fail) != SL_OK)
			fail_msg("%s", fail.text);
		assert_int_equal(c.data.transforms.n, 3);
		assert_string_equal(c.data.transforms.item[0], "RandomCrop(32, padding=4)");
		assert_string_equal(c.data.transforms.item[1], "Pad((1, 2))");
		assert_string_equal(c.data.transforms.item[2], "Normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))");
	}
}

static void codec_for_all_or_each(void **state)
{
	struct sl_conf_client c;
	struct sl_fail fail;

	assert_int_equal(parse(&c, BASE "codec: quant:8\n", NULL, &fail), SL_OK);
	for (int i = 0; i < 4; i++)
		assert_string_equal(c.agreed.codec[i], "quant:8");
	assert_int_equal(parse(&c, BASE "codec: quant:8\n", "codec=topk:0.1|quant:4", &fail), SL_OK);
	for (int i = 0; i < 4; i++)
		assert_string_equal(c.agreed.codec[i], "topk:0.1|quant:4");
	assert_int_equal(parse(&c, BASE "codec: quant:8\n", "codec.head_grad=f16", &fail), SL_OK);
	assert_string_equal(c.agreed.codec[2], "quant:8");
	assert_string_equal(c.agreed.codec[3], "f16");
}

/* What a name stands for depends on the kind of the data; a tensor's own codec has the last word. */
static void codec_by_name(void **state)
{
	struct sl_conf_client c;
	struct sl_fail fail;

	assert_int_equal(parse(&c, BASE "codec: small\n", NULL, &fail), SL_OK);
	assert_string_equal(c.agreed.codec[0], "quant:8|zstd");
	assert_string_equal(c.agreed.codec[2], "quant:8,round=stochastic|zstd");
	assert_int_equal(parse(&c, BASE "codec: {head_act: smallest}\n", NULL, &fail), SL_OK);
	assert_string_equal(c.agreed.codec[0], "quant:4|zstd");
	assert_string_equal(c.agreed.codec[1], "none");
	assert_string_equal(sl_named_codec("small", SL_DATA_CSV, 0), "quant:8");
	assert_string_equal(sl_named_codec("small", SL_DATA_TEXT, 0), "quant:8,block=64|zstd:19");
	assert_string_equal(sl_named_codec("quant:8", SL_DATA_TEXT, 0), "quant:8");
	assert_int_equal(parse(&c, BASE "codec: exact\n", "codec.mid_act=f16", &fail), SL_OK);
	assert_string_equal(c.agreed.codec[0], "none");
	assert_string_equal(c.agreed.codec[1], "f16");
}

static void faults_in_files(void **state)
{
	static const struct {
		const char *text, *expect;
	} cases[] = {
		{BASE "train:\n  bacth: 3\n", "c.yaml:4:3: unknown key \"bacth\" in train: did you mean \"batch\"?"},
		{BASE "train:\n  optimizer: {name: sgd}\n",
		 "unknown key \"name\" in train.optimizer: did you mean model.name? valid here: kind, momentum"},
		{BASE "trian: {}\n", "c.yaml:3:1: unknown key \"trian\": did you mean \"train\"?"},
		{BASE "momentum: 0.9\n",
		 "c.yaml:3:1: unknown key \"momentum\": did you mean train.optimizer.momentum?"},
		{BASE "log: {zzzzzzz: 1}\n",
		 "c.yaml:3:7: unknown key \"zzzzzzz\" in log: valid here: dir, level, tensorboard"},
		{BASE "train: {zzzzzzz: 1}\n", " and others, which --print-config lists"},
		{"model: {name: m}\ndata: {dir: /d, transforms: [RandomCrop(32, Resize(64)]}\n",
		 "c.yaml:2:30: a bracket of \"RandomCrop(32, Resize(64)\" is not closed"},
		{BASE "train.batch: 3\n", "c.yaml:3:1: unknown key \"train.batch\": "},
		{"model: {name: mlp}\ndata: {kind: csv, dir: d, label: null}\n",
		 "c.yaml:2:34: data.label: needs the name of a column"},
		{"model: {name: mlp}\ndata: {kind: csv, dir: d, label: ~}\n", "needs the name of a column"},
		{"model: {name: mlp}\ndata: {kind: csv, dir: d, label: \"\"}\n", "data.label must not be empty"},
		{"model: {name: mlp, task: numbers, classes: 3}\ndata: {kind: csv, dir: d, label: [a, b, a]}\n",
		 "c.yaml:2:34: data.label: a is named twice: name each column or class once"},
		{BASE "threads: 1\nthreads: 2\n", "c.yaml:4:1: key threads is given twice: remove one"},
		{BASE "train: {batch: 1, chunks: 1}\ntrain: {epochs: 2}\n", "c.yaml:4:1: key train is given twice"},
		{BASE "codec: {mid_act: none, mid_act: f16}\n", "c.yaml:3:24: key codec.mid_act is given twice"},
		{BASE "threads: many\n",
		 "c.yaml:3:10: threads must be a whole number from 0 to 256 (0: all CPUs), got \"many\""},
		{BASE "threads: \"2\"\n", "c.yaml:3:10: threads must be a whole number"},
		{BASE "threads: 2.5\n", "c.yaml:3:10: threads must be a whole number"},
		{BASE "threads: 1e2\n", "c.yaml:3:10: threads must be a whole number"},
		{BASE "threads: 257\n", "got \"257\""},
		{BASE "threads: -1\n", "got \"-1\""},
		{BASE "threads: 99999999999999999999\n", "c.yaml:3:10: threads must be"},
		{BASE "threads:\n", "must be a whole number from 0 to 256 (0: all CPUs), got nothing"},
		{BASE "threads: [1]\n",
		 "c.yaml:3:10: threads must be a whole number from 0 to 256 (0: all CPUs), got a list"},
		{BASE "threads: {a: 1}\n", "c.yaml:3:10: threads must be "},
		{BASE "train: 7\n", "c.yaml:3:8: train must be a section of keys, got a single value"},
		{BASE "train: [1]\n", "c.yaml:3:8: train must be a section of keys, got a list"},
		{BASE "codec: [none]\n", "c.yaml:3:8: codec must be a section of keys, got a list"},
		{BASE "codec: \"\"\n", "must be a codec without blanks"},
		{BASE "train: {optimizer: {lr: nan}}\n", "must be a number from 1e-12 to 1000, got \"nan\""},
		{BASE "train: {optimizer: {lr: 0x10}}\n", "must be a number from 1e-12 to 1000, got \"0x10\""},
		{BASE "train: {optimizer: {lr: 1e999}}\n", "must be a number from 1e-12 to 1000"},
		{BASE "train: {optimizer: {lr: 0.1.2}}\n", "must be a number from 1e-12 to 1000, got \"0.1.2\""},
		{BASE "train: {optimizer: {lr: -0.1}}\n", "must be a number from 1e-12 to 1000, got \"-0.1\""},
		{BASE "train: {drop_last: \"true\"}\n", "train.drop_last must be true or false, got \"true\""},
		{BASE "train: {drop_last: yes}\n", "c.yaml:3:20: train.drop_last must be true or false, got \"yes\""},
		{BASE "train: {precision: fp8}\n",
		 "train.precision must be fp32, tf32, bf16, fp16 or bf16_factors, got \"fp8\""},
		{BASE "train: {precision: fp16}\n", "c.yaml:3:20: train.precision: fp16 needs train.on_nan: skip"},
		{BASE "train: {chunk_loss: max}\n", "train.chunk_loss must be mean or sum, got \"max\""},
		{BASE "link: {part_bytes: 2 MiB}\n", "link.part_bytes must be bytes from 4 KiB to 1 MiB, such as"},
		{BASE "link: {part_bytes: 1 MB}\n", "got \"1 MB\""},
		{BASE "link: {window_bytes: 9223372036854775807 GiB}\n", "link.window_bytes must be bytes"},
		{BASE "link: {part_bytes: 18014398509482048 KiB}\n",
		 "link.part_bytes must be bytes"}, /* 2^64 + 64 KiB */
		{BASE "link: {part_bytes: 1 MiB, window_bytes: 4096}\n",
		 "c.yaml:3:41: link.window_bytes: must not be smaller than link.part_bytes (1048576 bytes)"},
		{BASE "link: {part_bytes: 1 MiB, window_bytes: 1048575}\n", "must not be smaller than link.part_bytes"},
		{BASE "link: {timeout_ms: 1999}\n", "c.yaml:3:20: link.timeout_ms: must be at least twice"},
		{BASE "train: {batch: 1024, chunks: 257}\n",
		 "c.yaml:3:30: train.chunks must be a whole number from 1 to 256"},
		{BASE "train: {batch: 4, chunks: 5}\n",
		 "c.yaml:3:27: train.chunks: must be at most train.batch (4), got 5"},
		{"model: {name: resnet9, form: cifar}\ndata: {dir: x}\n", "c.yaml:1:30: model.form: resnet9 has none"},
		{"model: {name: resnet9, dropout: 0.1}\ndata: {dir: x}\n",
		 "c.yaml:1:33: model.dropout: resnet9 has none"},
		{BASE "train: {schedule: {end_lr: 0.2}}\n", "c.yaml:3:28: train.schedule.end_lr: must be at most"},
		{BASE "train: {schedule: {kind: step}}\n",
		 "c.yaml:3:26: train.schedule.kind: step needs train.schedule.every_epochs or"},
		{BASE "train: {schedule: {kind: step, every_epochs: 1, milestones: [2]}}\n", "and not both"},
		{BASE "train: {schedule: {kind: step, milestones: [2, 2]}}\n",
		 "c.yaml:3:44: train.schedule.milestones: the epochs must rise, and \"2\" does not"},
		{BASE "train: {schedule: {kind: step, milestones: [2x]}}\n",
		 "train.schedule.milestones must be numbers of epochs from 0 to 1e+06, such as [16, 27], got \"2x\""},
		{BASE "train: {schedule: {kind: step, milestones: [-1]}}\n", "got \"-1\""},
		{BASE "train: {schedule: {kind: points}}\n",
		 "train.schedule.points (default): needs two points or more"},
		{BASE "train: {schedule: {kind: points, points: [0:0, 5:0]}}\n",
		 "one of them with a learning rate above"},
		{BASE "train: {schedule: {kind: points, points: [0:0, 5:0.4, 4:0]}}\n",
		 "train.schedule.points: the epochs must rise, and \"4:0\" does not"},
		{BASE "train: {schedule: {kind: points, points: [0:0, 5]}}\n", "must be EPOCH:LR each"},
		{BASE "train: {schedule: {kind: points, points: [0:0, nan:1]}}\n", "got \"nan:1\""},
		{BASE "train: {schedule: {kind: points, points: [0:0, 1:1e9]}}\n", "got \"1:1e9\""},
		{BASE "train: {schedule: {kind: points, points: [0:0, 1:1], warmup_epochs: 1}}\n",
		 "train.schedule.warmup_epochs: train.schedule.points sets the learning rate"},
		{BASE "train: {optimizer: {lr: 1}, schedule: {kind: points, points: [0:0, 1:1]}}\n",
		 "c.yaml:3:25: train.optimizer.lr: train.schedule.points sets the learning rate"},
		{BASE "train: {schedule: {points: [0:0, 1:1]}}\n",
		 "train.schedule.points: belongs to train.schedule.kind: points; leave this key out"},
		{BASE "train: {schedule: {kind: cosine, gamma: 0.5}}\n",
		 "train.schedule.gamma: belongs to train.schedule.kind: step"},
		{BASE "train: {optimizer: {momentum: 0, nesterov: true}}\n", "train.optimizer.nesterov: needs"},
		{"model: {name: token_mlp}\ndata: {kind: glue, dir: d, tokenizer: t}\n",
		 "data.task (default): glue needs a task: cola, sst2"},
		{"model: {name: token_mlp}\ndata: {kind: glue, task: text, dir: d, tokenizer: t}\n",
		 "data.task: glue needs a task: cola"},
		{"model: {name: token_mlp}\ndata: {kind: rte, task: cola, dir: d, tokenizer: t}\n",
		 "data.task: belongs to data.kind: glue"},
		{BASE "train: {optimizer: {kind: adamw, lr: 0.001, momentum: 0.9}}\n",
		 "c.yaml:3:55: train.optimizer.momentum: adamw does not have this key: it belongs to sgd"},
		{BASE "train: {optimizer: {nesterov: false, kind: adam, lr: 0.001}}\n",
		 "c.yaml:3:31: train.optimizer.nesterov: adam does not have this key: it belongs to sgd"},
		{BASE "train: {optimizer: {beta1: 0.9}}\n",
		 "c.yaml:3:28: train.optimizer.beta1: sgd does not have this key: it belongs to adam and adamw"},
		{BASE "train: {optimizer: {kind: sgd, beta2: 0.9}}\n",
		 "train.optimizer.beta2: sgd does not have this key"},
		{BASE "train: {optimizer: {eps: 1e-6}}\n", "train.optimizer.eps: sgd does not have this key"},
		{BASE "train: {optimizer: {kind: adam}}\n",
		 "c.yaml:3:27: train.optimizer.kind: adam needs a train.optimizer.lr: the default of 0.1 is"},
		{BASE "train: {optimizer: {kind: adam, lr: 1e-3, beta1: 1}}\n", "must be a number from 0 to 0.999999"},
		{BASE "train: {optimizer: {kind: adam, lr: 1e-3, eps: 0}}\n", "must be a number from 1e-16 to 1"},
		{BASE "train: {optimizer: {kind: rmsprop}}\n", "must be sgd, adam or adamw, got \"rmsprop\""},
		{BASE "server: 127.0.0.1:5570\n", "c.yaml:3:9: server must be tcp://host:port"},
		{BASE "server: tcp://h:0\n", "must be tcp://host:port"},
		{BASE "server: tcp://h:65536\n", "must be tcp://host:port"},
		{BASE "server: tcp://:5570\n", "must be tcp://host:port"},
		{BASE "server: \"tcp://[::1:5570\"\n", "must be tcp://host:port"},
		{BASE "server: \"tcp://::1:5570\"\n", "must be tcp://host:port"},
		{BASE "server: \"tcp://*:5570\"\n", "must be tcp://host:port"},
		{BASE "partition: 1\n", "c.yaml:3:12: partition must be two whole numbers"},
		{BASE "partition: \"1:-1:2\"\n", "partition must be two whole numbers"},
		{BASE "device: cuda:0\n", "device must be cpu"},
		{"model: {name: ''}\ndata: {dir: d}\n", "c.yaml:1:15: model.name must not be empty"},
		{"data: {dir: d}\n", "c.yaml:1:1: model.name is missing: network: mobilenet_v2"},
		{"", "c.yaml:1:1: model.name is missing"},
		{"model: {name: m, partial: true}\ndata: {dir: d}\n", "model.partial: needs a file in model.weights"},
		{"model: {name: m}\ndata: {dir: d, train_files: a.bin}\n", "such as [a.bin]"},
		{"model: {name: m}\ndata: {dir: d, train_files: [[a]]}\n", "c.yaml:2:30: data.train_files: an item"},
		{"model: {name: m}\ndata: {dir: d, train_files: [../a]}\n", "without a folder, got \"../a\""},
		{"- a\n", "c.yaml:1:1: the file must be a section of keys, got a list"},
		{"word\n", "c.yaml:1:1: the file must be a section of keys, got a single value"},
		{BASE "---\nthreads: 1\n", "one document per file"},
		{BASE "threads: &a 1\n", "c.yaml:3:10: YAML anchors and aliases are not supported"},
		{BASE "threads: *a\n", "YAML anchors and aliases are not supported"},
		{BASE "threads: !!int 1\n", "c.yaml:3:10: YAML tags are not supported"},
		{BASE "<<: {threads: 1}\n", "c.yaml:3:1: unknown key \"<<\""},
		{BASE "? [a]\n: 1\n", "c.yaml:3:3: a key must be a word, got a list"},
		{BASE "server: \"tcp\n", "not YAML"},
		{BASE "\tthreads: 1\n", "c.yaml:3:1: not YAML: a tab; YAML is indented with spaces"},
		{BASE "train:\n\tbatch: 1\n", "c.yaml:4:1: not YAML: a tab;"},
		{BASE "control: @a\n", "c.yaml:3:10: not YAML: @ cannot begin a value: put it in quotes"},
		{BASE "train:\n   batch: 8\n  chunks: 2\n",
		 "c.yaml:5:3: not YAML: did not find expected key: keys of one section stand in one column"},
		{BASE "control: a: b\n",
		 "c.yaml:3:11: not YAML: mapping values are not allowed in this context: keys of one section "
		 "stand in one column, and text with \": \" in quotes"},
		{BASE "threads:1\n", "not YAML: could not find expected ':': a key ends with a colon and a space"},
		{BASE "train:\n  batch:8\n",
		 "c.yaml:4:3: train must be a section of keys, each with a colon and a space"},
		{BASE "control: \"a\\0b\"\n", "c.yaml:3:10: must not contain a NUL"},
		{BASE "control: \"a\\nb\"\n", "must be UTF-8 without control characters (byte 2)"},
		{BASE "control: \"\xff\"\n", "the file must be UTF-8 text"},
	};
	struct sl_conf_client c, before;
	struct sl_fail fail;

	memset(&c, 0x5a, sizeof c);
	before = c;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		fail.text[0] = 0;
		assert_int_equal(parse(&c, cases[i].text, NULL, &fail), SL_ERR_CONFIG);
		if (!strstr(fail.text, cases[i].expect))
			fail_msg("%s\n  gave     %s\n  expected %s", cases[i].text, fail.text, cases[i].expect);
		assert_int_equal(fail.code, SL_ERR_CONFIG);
	}
	assert_memory_equal(&c, &before, sizeof c); /* outputs are untouched on failure */
}

static void faults_in_sets(void **state)
{
	static const struct {
		const char *set, *expect;
	} cases[] = {
		{"train.batch", "--set train.batch: must be KEY=VALUE, such as threads=2"},
		{"=3", "--set =3: must be KEY=VALUE, such as threads=2"},
		{"trian.batch=3", "--set trian.batch: unknown key: did you mean \"train\"?"},
		{"train.optimzer.lr=3", "--set train.optimzer.lr: unknown key: did you mean \"optimizer\"?"},
		{"foo=3", "--set foo: unknown key: valid here: "},
		{"listen=3", "--set listen: unknown key: it is of splits's config"},
		{"train.bacth=3", "--set train.bacth: unknown key: did you mean \"batch\"?"},
		{"lr=3", "--set lr: unknown key: did you mean train.optimizer.lr?"},
		{"epocs=3", "--set epocs: unknown key: did you mean train.epochs? valid here: server"},
		{"nowhere.lr=3", "--set nowhere.lr: unknown key"},
		{"train.zzzzzzz=3", " and others, which --print-config lists"},
		{"train.metrics=roc",
		 "must be accuracy, top5, matthews, f1, precision, recall, specificity, balanced_accuracy, auc, "
		 "average_precision, calibration_error, f1_micro, precision_micro, recall_micro, mean_iou, dice, or of "
		 "numbers "
		 "pearson, spearman, mae, rmse, r2, got \"roc\""},
		{"train.stop.metric=roc", "--set train.stop.metric: must be loss, accuracy, "},
		{"train.stop.metric=roc", ", rmse, r2, got \"roc\""},
		{"train=3", "--set train: is a section: valid here: batch, chunks,"},
		{"model.image=4097",
		 "--set model.image: must be height x width such as 40x56, or one number for both, from 8 to 4096 "
		 "(pixels), got \"4097\""},
		{"model.image=40x7", "got \"40x7\""},
		{"model.image=40x", "got \"40x\""},
		{"model.image=x40", "got \"x40\""},
		{"model.image=40x56x3", "got \"40x56x3\""},
		{"train.batch=x", "--set train.batch: must be a whole number from 1 to 1048576 (samples), got \"x\""},
		{"train.batch=", "got nothing"},
		{"train.chunks=200", "--set train.chunks: must be at most train.batch (128), got 200"},
		{"codec=", "--set codec.head_act: must be a codec"},
		{"control=a\nb", "--set control: must be UTF-8 without control characters (byte 2)"},
		{"control=\xc3\x28", "--set control: must be UTF-8"},
		{"control=\xed\xa0\x80", "--set control: must be UTF-8"},
		{"control=\xc2\x85", "--set control: must be UTF-8"},
		/* YAML's line separators, the byte order mark, a noncharacter */
		{"control=\xe2\x80\xa8", "--set control: must be UTF-8"},
		{"control=\xe2\x80\xa9", "--set control: must be UTF-8"},
		{"control=\xef\xbb\xbf", "--set control: must be UTF-8"},
		{"control=\xef\xbf\xbe", "--set control: must be UTF-8"},
	};
	struct sl_conf_client c;
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(parse(&c, BASE, cases[i].set, &fail), SL_ERR_CONFIG);
		if (!strstr(fail.text, cases[i].expect))
			fail_msg("--set %s\n  gave     %s\n  expected %s", cases[i].set, fail.text, cases[i].expect);
	}
}

/* The longest lists and texts are accepted, longer ones are refused. */
static void lists_and_texts_end(void **state)
{
	char text[1024], longest[SL_CONF_SOCKET_PATH + 16] = "control=/";
	const size_t begin = strlen(longest);
	struct sl_conf_client c;
	struct sl_fail fail;

	strcpy(text, "model: {name: m}\ndata:\n  dir: d\n  train_files: [a0");
	for (int i = 1; i < SL_CONF_LIST_MAX; i++)
		sprintf(text + strlen(text), ", a%d", i);
	strcat(text, "]\n");
	assert_int_equal(parse(&c, text, NULL, &fail), SL_OK);
	assert_int_equal(c.data.train_files.n, SL_CONF_LIST_MAX);
	strcpy(strchr(text, ']'), ", more]\n");
	assert_int_equal(parse(&c, text, NULL, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "must have at most"));
	memset(longest + begin, 'a', SL_CONF_SOCKET_PATH - 2); /* fills the field with the slash and the NUL */
	assert_int_equal(parse(&c, BASE, longest, &fail), SL_OK);
	assert_int_equal(strlen(c.control), SL_CONF_SOCKET_PATH - 1);
	strcat(longest, "a");
	assert_int_equal(parse(&c, BASE, longest, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "bytes, got"));
}

static void sets_win_in_order(void **state)
{
	static const char *const sets[] = {"train.batch=32", "train.batch=16", "data.train_files=a.bin,b.bin",
					   "model.weights=", "model.name=m2",  "control=/tmp/caf\xc3\xa9.sock"};
	struct sl_conf_client c;
	struct sl_fail fail;

	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &c, "c.yaml", BASE, strlen(BASE), sets, 6, &fail),
			 SL_OK);
	assert_int_equal(c.agreed.batch, 16);
	assert_int_equal(c.data.train_files.n, 2);
	assert_string_equal(c.data.train_files.item[0], "a.bin");
	assert_string_equal(c.data.train_files.item[1], "b.bin");
	assert_string_equal(c.model.name, "m2");
	/* a required key may come from --set alone */
	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &c, "c.yaml", "data: {dir: d}", 14, sets, 6, &fail),
			 SL_OK);
}

/* Keys of one optimizer in the file do not conflict with another by --set, but its lr is not used for that. */
static void set_of_another_optimizer(void **state)
{
	static const char of_sgd[] = BASE "train: {optimizer: {lr: 0.1, momentum: 0.9, nesterov: true}}\n";
	static const char of_adam[] = BASE "train: {optimizer: {kind: adam, lr: 0.002, beta1: 0.8}}\n";
	const char *sets[] = {"train.optimizer.kind=adamw", "train.optimizer.lr=0.001", "train.optimizer.momentum=0.5"};
	const char *const sgd[] = {"train.optimizer.kind=sgd"};
	struct sl_conf_client c;
	struct sl_fail fail;

	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &c, "c.yaml", of_sgd, strlen(of_sgd), sets, 2, &fail),
			 SL_OK);
	assert_int_equal(c.agreed.optimizer.kind, SL_CONF_ADAMW);
	assert_true(c.train.lr == 0.001);
	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &c, "c.yaml", of_sgd, strlen(of_sgd), sets, 1, &fail),
			 SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text,
			       "--set train.optimizer.kind: adamw needs a train.optimizer.lr by --set, too: the "
			       "file's 0.1 is meant for sgd"));
	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &c, "c.yaml", of_sgd, strlen(of_sgd), sets, 3, &fail),
			 SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "--set train.optimizer.momentum: adamw does not have this key"));
	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &c, "c.yaml", of_adam, strlen(of_adam), sgd, 1, &fail),
			 SL_OK);
	assert_true(c.train.lr == 0.002);
	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &c, "c.yaml", of_adam, strlen(of_adam), sets, 1, &fail),
			 SL_OK);
}

static void server_stays_on_loopback(void **state)
{
	static const char *const refused[] = {"tcp://*:5570",      "tcp://0.0.0.0:5570",  "tcp://192.168.1.1:5570",
					      "tcp://eth0:5570",   "tcp://[::]:5570",     "tcp://127.0.0.1.evil:5570",
					      "tcp://128.0.0.1:1", "tcp://127.0.0.256:1", "tcp://127.-1.0.1:1",
					      "tcp://127.0.1:1"};
	static const char *const fine[] = {"tcp://127.0.0.1:0", "tcp://127.9.9.9:65535", "tcp://localhost:1",
					   "tcp://[::1]:5570"};
	struct sl_conf_server s;
	struct sl_fail fail;
	char set[SL_CONF_TEXT];
	const char *sets = set;

	for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		snprintf(set, sizeof set, "listen=%s", refused[i]);
		assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml", "", 0, &sets, 1, &fail),
				 SL_ERR_CONFIG);
		assert_non_null(strstr(fail.text, "--set listen: must be on loopback"));
	}
	for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++) {
		snprintf(set, sizeof set, "listen=%s", fine[i]);
		assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml", "", 0, &sets, 1, &fail), SL_OK);
		assert_string_equal(s.listen, fine[i]);
	}
	snprintf(set, sizeof set, "device=cuda:99");
	assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml", "", 0, &sets, 1, &fail), SL_OK);
	snprintf(set, sizeof set, "device=cuda:100");
	assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml", "", 0, &sets, 1, &fail), SL_ERR_CONFIG);
	snprintf(set, sizeof set, "device=cuda");
	assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml", "", 0, &sets, 1, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.text, "--set device: must be auto, cpu or cuda:N with N from 0 to 99, got \"cuda\"");
	snprintf(set, sizeof set, "link.timeout_ms=5000"); /* each client says its own */
	assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml", "", 0, &sets, 1, &fail), SL_ERR_CONFIG);
	assert_string_equal(fail.text, "--set link.timeout_ms: unknown key: valid here: window_bytes");
}

static void auth_is_whole_and_opens_the_bind(void **state)
{
	static const struct {
		const char *set[2], *why; /* NULL: fine */
	} server[] = {
		{{"auth.secret_key=k", "threads=1"}, "--set auth.secret_key: auth needs both secret_key and clients"},
		{{"auth.clients=c", "threads=1"}, "--set auth.clients: auth needs both"},
		{{"auth.secret_key=k", "auth.clients=c"}, NULL},
		{{"limits.sessions_per_key=0", "threads=1"}, "--set limits.sessions_per_key: must be a whole number"},
	};
	struct sl_conf_server s;
	struct sl_conf_client c;
	struct sl_fail fail;

	for (size_t i = 0; i < sizeof server / sizeof server[0]; i++) {
		enum sl_err err = sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml", "", 0, server[i].set, 2, &fail);

		assert_int_equal(err, server[i].why ? SL_ERR_CONFIG : SL_OK);
		if (server[i].why)
			assert_non_null(strstr(fail.text, server[i].why));
	}
	assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml",
				       "listen: tcp://*:5570\nauth: {secret_key: k, clients: c}\n", 55, NULL, 0, &fail),
			 SL_OK);
	assert_string_equal(s.listen, "tcp://*:5570");
	assert_int_equal(s.limits.sessions_per_key, 4);
	assert_int_equal(parse(&c, BASE "auth: {secret_key: k}\n", NULL, &fail), SL_ERR_CONFIG);
	assert_non_null(strstr(fail.text, "c.yaml:3:20: auth.secret_key: auth needs both secret_key and server_key"));
	/* all special characters of Z85, as a key file has them */
	assert_int_equal(
		parse(&c, BASE "auth: {secret_key: k, server_key: '.-:+=^!/*?&<>()[]{}@%$#0aA'}\n", NULL, &fail),
		SL_OK);
	assert_string_equal(c.auth.server_key, ".-:+=^!/*?&<>()[]{}@%$#0aA");
}

static char *printed(const struct sl_conf_schema *schema, const void *conf)
{
	char *text = NULL;
	size_t len;
	FILE *file = open_memstream(&text, &len);

	assert_non_null(file);
	assert_int_equal(sl_conf_print(schema, conf, file), SL_OK);
	fclose(file);
	/* Printed remarks fit 80 columns. */
	for (const char *line = text, *end; *line; line = end + 1) {
		const char *begin = line + strspn(line, " ");

		end = strchr(line, '\n');
		assert_true(end - line < 80 || *begin != '#');
	}
	return text;
}

/* Keys that the optimizer does not have are printed as remarks, so what is printed can be loaded as a config. */
static void print_can_be_loaded_with_any_optimizer(void **state)
{
	static const char *const sets[][3] = {
		{"train.optimizer.kind=sgd", "train.optimizer.momentum=0.5", "train.optimizer.lr=0.1"},
		{"train.optimizer.kind=adam", "train.optimizer.beta2=0.99", "train.optimizer.lr=1e-3"},
		{"train.optimizer.kind=adamw", "train.optimizer.eps=1e-6", "train.optimizer.lr=2e-5"}};
	struct sl_conf_client a, b;
	struct sl_fail fail;
	char *text;

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(
			sl_conf_parse(&sl_conf_client_schema, &a, "c.yaml", BASE, strlen(BASE), sets[i], 3, &fail),
			SL_OK);
		text = printed(&sl_conf_client_schema, &a);
		assert_int_equal(strstr(text, "\n    #momentum: 0.9\n") != NULL, i > 0);
		assert_int_equal(strstr(text, "\n    #beta1: 0.9\n") != NULL, i == 0);
		assert_int_equal(
			sl_conf_parse(&sl_conf_client_schema, &b, "p.yaml", text, strlen(text), NULL, 0, &fail), SL_OK);
		assert_memory_equal(&a, &b, offsetof(struct sl_conf_client, origin));
		free(text);
	}
}

static void print_can_be_loaded(void **state)
{
	static const char *const sets[] = {"model.width=0.35000000000000003",    "model.name=we\"ird\\ : name #1",
					   "data.train_files=a.bin,true,1",      "link.window_bytes=1048577",
					   "train.seed=9007199254740992",        "codec=topk:0.2|quant:8",
					   "tail_begin=~x \xc3\xa9\xe2\x82\xac", "model.image=40x56"};
	struct sl_conf_client a, b;
	struct sl_conf_server s, t;
	struct sl_fail fail;
	char *one, *two;

	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &a, "c.yaml", BASE, strlen(BASE), sets, 8, &fail),
			 SL_OK);
	one = printed(&sl_conf_client_schema, &a);
	assert_int_equal(parse(&b, one, NULL, &fail), SL_OK);
	assert_memory_equal(&a, &b, offsetof(struct sl_conf_client, origin));
	two = printed(&sl_conf_client_schema, &b);
	assert_string_equal(one, two);
	assert_non_null(strstr(
		one,
		"\ntrain:\n  # batch size of one step; a whole number from 1 to 1048576 (samples)\n  batch: 128\n"));
	free(one);
	free(two);
	assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &s, "s.yaml", "", 0, NULL, 0, &fail), SL_OK);
	one = printed(&sl_conf_server_schema, &s);
	assert_int_equal(sl_conf_parse(&sl_conf_server_schema, &t, "p.yaml", one, strlen(one), NULL, 0, &fail), SL_OK);
	assert_memory_equal(&s, &t, offsetof(struct sl_conf_server, origin));
	free(one);
}

static void examples_load(void **state)
{
	static struct sl_conf_sweep_row row[16];
	struct sl_conf_client c;
	struct sl_conf_server s;
	struct sl_fail fail;
	int n;

	assert_int_equal(sl_conf_load_list(&sl_conf_sweep_schema, row, 16, &n, "configs/sweep.yaml", &fail), SL_OK);
	assert_int_equal(n, 7);
	assert_int_equal(row[2].chunks, 8);
	assert_int_equal(sl_conf_client_load(&c, "configs/client-demo.yaml", NULL, 0, &fail), SL_OK);
	assert_string_equal(c.agreed.codec[3], "quant:8,round=stochastic|zstd");
	assert_int_equal(sl_conf_client_load(&c, "configs/client-finetune224.yaml", NULL, 0, &fail), SL_OK);
	assert_string_equal(c.head_end, "features.0.1");
	assert_int_equal(c.agreed.batch, 64);
	assert_true(c.train.lr == 0.005 && c.agreed.optimizer.momentum == 0.1);
	assert_int_equal(sl_conf_client_load(&c, "configs/client-finetune-adamw.yaml", NULL, 0, &fail), SL_OK);
	assert_int_equal(c.agreed.optimizer.kind, SL_CONF_ADAMW);
	assert_true(c.train.lr == 1e-4 && c.agreed.optimizer.weight_decay == 0.01);
	assert_int_equal(sl_conf_load(&sl_conf_server_schema, &s, "configs/server.yaml", NULL, 0, &fail), SL_OK);
	assert_int_equal(s.limits.memory_bytes, (int64_t)8 << 30);
}

static void hostile_nesting(void **state)
{
	struct sl_conf_client c;
	struct sl_fail fail;
	enum { LEN = 1 << 20 };
	char *text = malloc(LEN + 1);

	assert_non_null(text);
	for (int i = 0; i < 4; i++) {
		memset(text, "[{?-"[i], LEN);
		text[LEN] = 0;
		memcpy(text, "log: ", 5);
		assert_int_equal(parse(&c, text, NULL, &fail), SL_ERR_CONFIG);
	}
	free(text);
}

/* A group is a text or a mapping; both are read into the same text. */
static void groups_are_texts_or_mappings(void **state)
{
	static const char text[] =
		BASE "train:\n  groups:\n  - {match: [a.*, b], lr: 0.5}\n  - 'c lr=2  weight_decay=0'\n"
		     "  - weight_decay: 1e-4\n    match: d\n";
	static const struct {
		const char *text, *says;
	} wrong[] = {
		{"[{match: a}]", "must be patterns with lr=FACTOR"},
		{"[{lr: 1}]", "must be patterns with lr=FACTOR"},
		{"[{match: a, lr: 1, lr: 2}]", "got \"a lr=1 lr=2\""},
		{"[{match: a, lr: [1]}]", "lr must be a single value, got a list"},
		{"[{match: {a: b}, lr: 1}]", "match must be a single value, got a section"},
		{"[{match: [[a]], lr: 1}]", "match must be single values, got a list"},
		{"[{[a]: 1}]", "a key must be a word, got a list"},
		{"[[a, lr=1]]", "an item must be a single value, got a list"},
		{"[{match: a, lr: 1001}]", "must be patterns with lr=FACTOR"},
		{"[{match: a, weight_decay: nan}]", "must be patterns with lr=FACTOR"},
	};
	struct sl_conf_client c;
	struct sl_conf_group g;
	char rule[SL_CONF_RULE_TEXT];
	struct sl_fail fail;

	if (parse(&c, text, NULL, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(c.train.groups.n, 3);
	assert_string_equal(c.train.groups.item[0], "a.* b lr=0.5");
	assert_true(sl_conf_group_read(c.train.groups.item[1], &g));
	assert_int_equal(g.n_match, 1);
	sl_conf_group_rule(&g, rule);
	assert_string_equal(rule, "lr=2 weight_decay=0");
	assert_true(sl_conf_group_read(c.train.groups.item[2], &g));
	sl_conf_group_rule(&g, rule);
	assert_string_equal(rule, "weight_decay=0.0001");
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		char bad[512];

		snprintf(bad, sizeof bad, "%strain: {groups: %s}\n", BASE, wrong[i].text);
		assert_int_equal(parse(&c, bad, NULL, &fail), SL_ERR_CONFIG);
		if (!strstr(fail.text, wrong[i].says))
			fail_msg("%s: %s", wrong[i].text, fail.text);
	}
}

/* The sources of data.also are a mapping, a list of them, or texts; each is the config with its own section data. */
static void further_sources(void **state)
{
#define NETWORK "model: {network: n.safetensors}\n"
#define FIRST   "data: {kind: csv, dir: t, id: p, label: y, train_limit: 9, inputs: [row], also: "
	static const char text[] = NETWORK FIRST "[{kind: images, dir: 'a b', id: stem, inputs: image, "
						 "transforms: [Resize(8), Pad((1, 2))]}, "
						 "{dir: c, kind: csv, id: q, ignore: ['x, y', z], inputs: [left]}]}\n";
	static const struct {
		const char *text, *says;
	} wrong[] = {
		{"{kind: csv, dir: c, id: q}", "source 1: data.inputs: must name the network's input"},
		{"{kind: csv, dir: c, id: q, inputs: []}", "source 1: data.inputs: must name the network's input"},
		{"{kind: csv, dir: c, id: q, inputs: [a, b]}", "source 1: data.inputs: must name the network's input"},
		{"{kind: csv, dir: c, inputs: [a]}", "source 1: data.id: must say what names a row"},
		{"{kind: images, dir: c, id: name, inputs: [a]}", "source 1: data.id: must say what names a row"},
		{"{kind: cifar10, dir: c, id: stem, inputs: [a]}", "source 1: data.id: must say what names a row"},
		{"{kind: csv, id: q, inputs: [a]}", "source 1: data.dir must be the folder"},
		{"{kind: csv, dir: c, id: q, inputs: [a], jpeg: exact}", "source 1: data.jpeg: belongs to data.kind"},
		{"{kind: cvs, dir: c}", "source 1: data.kind: must be"},
		{"{knd: csv}", "source 1: data.knd: unknown key: did you mean \"kind\"?"},
		{"{dir: c, dir: d}", "source 1: data.dir=d: this key is given twice"},
		{"{dir: c, label: y}", "source 1: data.label counts for all sources"},
		{"{dir: c, also: [x]}", "source 1: data.also counts for all sources"},
		{"{split: {train: 1}}", "split must be a single value, got a section"},
		{"{ignore: [[a]]}", "ignore must be single values, got a list"},
		{"{[a]: 1}", "a key must be a word, got a list"},
		{"[[a]]", "an item must be a single value, got a list"},
		{"[kind]", "source 1: data.kind: must be KEY=VALUE"},
		{"[{dir: c, kind: csv, id: q, inputs: [a]}, {dir: d}]", "source 2: data.id: must say what names a row"},
		{"[{dir: a}, {dir: a}, {dir: a}, {dir: a}, {dir: a}, {dir: a}, {dir: a}, {dir: a}, {dir: a}]",
		 "at most 8 sources"},
	};
	static const char *const alone[] = {NETWORK "data: {kind: csv, dir: t, id: p}\n",
					    NETWORK "data: {kind: csv, dir: t, inputs: [a]}\n"};
	static struct sl_conf_client c, own;
	char why[SL_CONF_WHY], bad[800];
	struct sl_fail fail;

	if (parse(&c, text, NULL, &fail))
		fail_msg("%s", fail.text);
	assert_int_equal(sl_conf_also_count(&c), 2);
	assert_null(sl_conf_also(&own, &c, 0, why));
	assert_int_equal(own.data.kind, SL_DATA_IMAGES);
	assert_string_equal(own.data.dir, "a b");
	assert_string_equal(sl_conf_input(&own), "image");
	assert_int_equal(own.data.transforms.n, 2);
	assert_string_equal(own.data.transforms.item[1], "Pad((1, 2))");
	assert_true(sl_conf_lacks_labels(&own) && own.data.train_limit == 9 && !own.data.also.n);
	assert_string_equal(own.model.name, SL_CONF_NETWORK);
	assert_null(sl_conf_also(&own, &c, 1, why));
	assert_string_equal(own.model.name, SL_CONF_NETWORK_ROWS);
	assert_string_equal(own.data.ignore.item[0], "x, y");
	assert_int_equal(own.data.ignore.n, 2);
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		snprintf(bad, sizeof bad, "%s%s%s}\n", NETWORK, FIRST, wrong[i].text);
		assert_int_equal(parse(&c, bad, NULL, &fail), SL_ERR_CONFIG);
		if (!strstr(fail.text, wrong[i].says))
			fail_msg("%s: %s", wrong[i].text, fail.text);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(parse(&c, alone[i], NULL, &fail), SL_ERR_CONFIG);
		assert_non_null(strstr(fail.text, "data.also; leave this key out"));
	}
	/* a table may stand beside pictures that have masks */
	if (parse(&c,
		  "model: {network: n.safetensors, task: pixels}\ndata: {kind: images, dir: t, id: stem, inputs: "
		  "[image], label: [a, b], also: {kind: csv, dir: c, id: q, inputs: [row]}}\n",
		  NULL, &fail))
		fail_msg("%s", fail.text);
	/* what is wrong elsewhere is no fault of a source */
	snprintf(bad, sizeof bad, "%snoise: {head_act: 1}\n", text);
	assert_int_equal(parse(&c, bad, NULL, &fail), SL_ERR_CONFIG);
	if (!strstr(fail.text, " noise.key") || strstr(fail.text, "source"))
		fail_msg("%s", fail.text);
}

static void phases_of_a_run(void **state)
{
	static const char *const none[] = {"",
					   "image=32",
					   "epochs=0",
					   "epochs=1 epochs=2",
					   "epochs=1 image=7",
					   "epochs=1 image=32x",
					   "epochs=1 image=x32",
					   "epochs=1 batch=-1",
					   "epochs=1 batch=1.5",
					   "epochs=1 lr=0",
					   "epochs=1 lr=nan",
					   "epochs=1 lr=0x10",
					   "epochs=99999999999999999999",
					   "epochs=1 width=2",
					   "epochs=1 fast"};
	struct sl_conf_phase p;

	assert_true(sl_conf_phase_read("epochs=5", &p));
	assert_true(p.epochs == 5 && !p.image.h && !p.batch && !p.chunks && p.lr == 1);
	assert_true(sl_conf_phase_read("  batch=512 epochs=15 image=128x96 chunks=8 lr=0.25", &p));
	assert_true(p.epochs == 15 && p.image.h == 128 && p.image.w == 96 && p.batch == 512 && p.chunks == 8);
	assert_true(p.lr == 0.25);
	for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
		if (sl_conf_phase_read(none[i], &p))
			fail_msg("\"%s\" is a phase", none[i]);
	assert_int_equal(p.epochs, 15);
}

/* A schedule comes from the file or from --set. The file's keys for another kind than --set chose are ignored. */
static void schedules_of_lists(void **state)
{
	static const char step[] =
		BASE "train: {optimizer: {lr: 0.5}, schedule: {kind: step, milestones: [16, 27.5], gamma: 0.1}}\n";
	static const char *const points[] = {"train.schedule.kind=points", "train.schedule.points=0:0,5:0.4,24:1e-3"};
	struct sl_conf_client c;
	struct sl_fail fail;
	double epoch, lr;

	assert_int_equal(parse(&c, step, NULL, &fail), SL_OK);
	assert_int_equal(c.train.schedule.milestones.n, 2);
	assert_true(sl_conf_point(c.train.schedule.milestones.item[1], &epoch, NULL) && epoch == 27.5);
	assert_int_equal(sl_conf_parse(&sl_conf_client_schema, &c, "c.yaml", step, strlen(step), points, 2, &fail),
			 SL_OK);
	assert_int_equal(c.train.schedule.kind, SL_CONF_POINTS);
	assert_int_equal(c.train.schedule.points.n, 3);
	assert_true(sl_conf_point(c.train.schedule.points.item[2], &epoch, &lr) && epoch == 24 && lr == 1e-3);
	/* The points give the learning rates, so adam's lr is not required. */
	assert_int_equal(parse(&c,
			       BASE "train: {optimizer: {kind: adam}, schedule: {kind: points, points: [0:1, 1:0]}}\n",
			       NULL, &fail),
			 SL_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(values_and_places),
		cmocka_unit_test(steps_with_commas),
		cmocka_unit_test(codec_for_all_or_each),
		cmocka_unit_test(codec_by_name),
		cmocka_unit_test(faults_in_files),
		cmocka_unit_test(faults_in_sets),
		cmocka_unit_test(lists_and_texts_end),
		cmocka_unit_test(sets_win_in_order),
		cmocka_unit_test(set_of_another_optimizer),
		cmocka_unit_test(server_stays_on_loopback),
		cmocka_unit_test(auth_is_whole_and_opens_the_bind),
		cmocka_unit_test(print_can_be_loaded),
		cmocka_unit_test(print_can_be_loaded_with_any_optimizer),
		cmocka_unit_test(examples_load),
		cmocka_unit_test(hostile_nesting),
		cmocka_unit_test(groups_are_texts_or_mappings),
		cmocka_unit_test(further_sources),
		cmocka_unit_test(phases_of_a_run),
		cmocka_unit_test(schedules_of_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
