/* Keys, key files, allow-lists, the gate, and the answers of the authentication handler to requests of every form. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#include "common/base/buf.h"
#include "common/link/gate.h"
#include "common/link/wire.h"
#include "common/link/zap.h"
#include "tests/support/unit.h"

static char dir[256];

static int make_dir(void **state)
{
	const char *base = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/key.XXXXXX", base ? base : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[300];

	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	return system(command);
}

static const char *path_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static const char *put(const char *name, const void *text, size_t len, mode_t mode)
{
	const char *path = path_of(name);
	int fd;

	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static struct sl_keypair make_pair(void)
{
	struct sl_keypair pair;

	if (!zmq_has("curve"))
		skip();
	assert_int_equal(sl_keypair_make(&pair, NULL), SL_OK);
	return pair;
}

/* ---- spelling */

static void only_forty_characters_of_z85_are_a_key(void **state)
{
	/* the key pair in the examples of rfc.zeromq.org/spec/26 */
	static const char bob[] = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
	char text[SL_KEY_TEXT], print[SL_FINGERPRINT];
	struct sl_key key, other;

	assert_true(sl_key_parse(&key, bob, 40));
	assert_int_equal(key.byte[0], 0xbb);
	assert_int_equal(key.byte[31], 0x18);
	sl_key_print(&key, text);
	assert_string_equal(text, bob);
	sl_key_fingerprint(&key, print);
	assert_string_equal(print, "ebb3-af4d-d99c-eff3"); /* of the key's SHA-256 */
	other = key;
	assert_true(sl_key_equal(&key, &other));
	assert_false(sl_key_parse(&other, bob, 39));
	assert_false(sl_key_parse(&other, "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hIDx", 41));
	for (int c = 0; c < 256; c++) {
		memcpy(text, bob, sizeof text);
		text[17] = (char)c;
		assert_true(
			sl_key_parse(&other, text, 40) ==
			(c &&
			 strchr("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
				c) != NULL));
	}
	assert_false(sl_key_parse(&other, "########################################", 40)); /* a group above 2^32 */
}

/* ---- key files */

static void a_saved_pair_is_private_and_never_overwritten(void **state)
{
	struct sl_keypair pair = make_pair(), read;
	const char *path = path_of("pair");
	struct sl_fail fail;
	struct stat st;

	umask(0);
	assert_int_equal(sl_keypair_save(&pair, path, &fail), SL_OK);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(sl_keypair_load(&read, path, &fail), SL_OK);
	assert_memory_equal(&read, &pair, sizeof pair);
	assert_int_equal(sl_keypair_save(&pair, path, &fail), SL_ERR_CANTCREATE);
	assert_non_null(strstr(fail.text, "never overwritten"));
	assert_int_equal(symlink("nowhere", path_of("link")), 0);
	assert_int_equal(sl_keypair_save(&pair, path_of("link"), &fail), SL_ERR_CANTCREATE);
	assert_int_equal(access(path_of("nowhere"), F_OK), -1);
	assert_int_equal(sl_keypair_save(&pair, path_of("no/such/folder"), &fail), SL_ERR_CANTCREATE);
}

static void a_key_file_that_others_may_use_is_refused(void **state)
{
	static const mode_t open[] = {0640, 0604, 0620, 0610, 0666};
	struct sl_keypair pair = make_pair(), read;
	const char *path = path_of("open");
	struct sl_fail fail;
	char folder[256], around[1024];

	assert_int_equal(sl_keypair_save(&pair, path, &fail), SL_OK);
	for (size_t i = 0; i < sizeof open / sizeof open[0]; i++) {
		assert_int_equal(chmod(path, open[i]), 0);
		assert_int_equal(sl_keypair_load(&read, path, &fail), SL_ERR_CONFIG);
		assert_non_null(strstr(fail.text, "chmod 600"));
	}
	/* systemd passes credentials with an access list, which shows as the mode of the group */
	assert_int_equal(chmod(path, 0440), 0);
	snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	assert_int_equal(sl_keypair_load(&read, path, &fail), SL_OK);
	for (int others = 0; others < 3; others++) {
		assert_int_equal(chmod(path, (mode_t[]){0444, 0460, 0450}[others]), 0);
		assert_int_equal(sl_keypair_load(&read, path, &fail), SL_ERR_CONFIG);
	}
	assert_int_equal(chmod(path, 0440), 0);
	/* a folder whose name is a prefix of that one, and a path that leaves the folder */
	folder[strlen(folder) - 1] = 0;
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	assert_int_equal(sl_keypair_load(&read, path, &fail), SL_ERR_CONFIG);
	snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	snprintf(around, sizeof around, "%s/..%s%s", folder, strrchr(folder, '/'), strrchr(path, '/'));
	assert_int_equal(sl_keypair_load(&read, around, &fail), SL_ERR_CONFIG);
	setenv("CREDENTIALS_DIRECTORY", "/run/credentials", 1);
	assert_int_equal(sl_keypair_load(&read, path, &fail), SL_ERR_CONFIG);
	unsetenv("CREDENTIALS_DIRECTORY");
	assert_int_equal(chmod(path, 0400), 0);
	assert_int_equal(sl_keypair_load(&read, path, &fail), SL_OK);
}

/* snprintf with `form`, which may leave out some of %1$s to %3$s; FORTIFY ends a program whose format does so. */
static int fill(char *out, size_t room, const char *form, const char *a, const char *b, const char *c)
{
	char all[512];

	snprintf(all, sizeof all, "%%1$.0s%%2$.0s%%3$.0s%s", form);
	return snprintf(out, room, all, a, b, c);
}

static void key_files_are_read_strictly(void **state)
{
	struct sl_keypair pair = make_pair(), other = make_pair(), read = {0};
	char p[SL_KEY_TEXT], s[SL_KEY_TEXT], q[SL_KEY_TEXT], text[8192];
	struct sl_fail fail;
	static const struct {
		const char *form, *why; /* %1$s public key, %2$s secret key, %3$s another pair's public key */
	} bad[] = {
		{"", "no line \"public KEY\""},
		{"public %1$s\n", "no line \"secret KEY\""},
		{"secret %2$s\n", "no line \"public KEY\""},
		{"public %1$s\nsecret %2$s\nsecret %2$s\n", ":3: line is there twice"},
		{"public %1$s\nsecret %2$s x\n", ":2: line must be"},
		{"public %1$s\nsecret %2$.39s\n", ":2: line has no key"},
		{"public %1$s\nsecret\n", ":2: line has no key"},
		{"public %1$s\nSecret %2$s\n", ":2: line must be"},
		{"public %1$s\nprivate %2$s\n", ":2: line must be"},
		{"#public %1$s\nsecret %2$s\n", "no line \"public KEY\""},
		{"public %3$s\nsecret %2$s\n", "not that of the secret one"},
		{"public %2$s\nsecret %1$s\n", "not that of the secret one"},
	};

	sl_key_print(&pair.public_key, p);
	sl_key_print(&pair.secret_key, s);
	sl_key_print(&other.public_key, q);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		int n = fill(text, sizeof text, bad[i].form, p, s, q);

		assert_int_equal(sl_keypair_load(&read, put("k", text, (size_t)n, 0600), &fail), SL_ERR_DATA);
		if (!strstr(fail.text, bad[i].why))
			fail_msg("\"%s\" lacks \"%s\"", fail.text, bad[i].why);
		assert_null(strstr(fail.text, s));
	}
	memset(text, '#', sizeof text);
	assert_int_equal(sl_keypair_load(&read, put("k", text, 8192, 0600), &fail), SL_ERR_DATA);
	/* a file that is longer than the part that is read: the rest could hold anything */
	text[snprintf(text, sizeof text, "public %s\nsecret %s\n", p, s)] = '#';
	assert_int_equal(sl_keypair_load(&read, put("k", text, 8192, 0600), &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "too long"));
	assert_int_equal(sl_keypair_load(&read, put("k", "\0\0\0\n\xff\xfe", 6, 0600), &fail), SL_ERR_DATA);
	assert_int_equal(sl_keypair_load(&read, path_of("not there"), &fail), SL_ERR_NOINPUT);
	assert_int_equal(sl_keypair_load(&read, dir, &fail), SL_ERR_NOINPUT);
	assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
	assert_int_equal(sl_keypair_load(&read, path_of("fifo"), &fail), SL_ERR_NOINPUT);
	for (size_t i = 0; i < sizeof read; i++)
		assert_int_equal(((uint8_t *)&read)[i], 0);
	snprintf(text, sizeof text,
		 "\xef\xbb\xbf"
		 "public %s\nsecret %s\n",
		 p, s);
	assert_int_equal(sl_keypair_load(&read, put("k", text, strlen(text), 0600), &fail), SL_OK);
	snprintf(text, sizeof text, "# remark\r\n\n  secret\t%s \r\n#\npublic %s", s, p);
	assert_int_equal(sl_keypair_load(&read, put("k", text, strlen(text), 0600), &fail), SL_OK);
	assert_memory_equal(&read, &pair, sizeof pair);
}

static void a_public_key_is_given_as_text_or_file(void **state)
{
	struct sl_keypair pair = make_pair();
	char p[SL_KEY_TEXT], s[SL_KEY_TEXT], text[512], name[SL_KEY_TEXT];
	struct sl_fail fail;
	struct sl_key key;
	int here;

	sl_key_print(&pair.public_key, p);
	sl_key_print(&pair.secret_key, s);
	assert_int_equal(sl_key_load_public(&key, p, &fail), SL_OK);
	assert_true(sl_key_equal(&key, &pair.public_key));
	snprintf(text, sizeof text, "# the server\n%s splits.example\n", p);
	assert_int_equal(sl_key_load_public(&key, put("pub", text, strlen(text), 0644), &fail), SL_OK);
	snprintf(text, sizeof text, "%s\n%s\n", p, p);
	assert_int_equal(sl_key_load_public(&key, put("pub", text, strlen(text), 0644), &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "holds 2 public keys"));
	assert_int_equal(sl_key_load_public(&key, put("pub", "", 0, 0644), &fail), SL_ERR_DATA);
	/* a file whose name could also be a key: the file is read */
	snprintf(name, sizeof name, "%0*d", SL_KEY_TEXT - 1, 0);
	snprintf(text, sizeof text, "%s\n", p);
	put(name, text, strlen(text), 0644);
	here = open(".", O_RDONLY | O_DIRECTORY);
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(sl_key_load_public(&key, name, &fail), SL_OK);
	assert_true(sl_key_equal(&key, &pair.public_key));
	assert_int_equal(unlink(name), 0);
	assert_int_equal(sl_key_load_public(&key, name, &fail), SL_OK);
	assert_false(sl_key_equal(&key, &pair.public_key));
	assert_int_equal(fchdir(here), 0);
	close(here);
	snprintf(text, sizeof text, "secret %s\n", s);
	assert_int_equal(sl_key_load_public(&key, put("pub", text, strlen(text), 0644), &fail), SL_ERR_DATA);
	assert_non_null(strstr(fail.text, "does not belong in this file"));
	assert_null(strstr(fail.text, s));
	assert_int_equal(sl_key_load_public(&key, "not a key", &fail), SL_ERR_NOINPUT);
}

static void keygen_prints_the_public_key_alone(void **state)
{
	char line[128] = "", text[SL_KEY_TEXT];
	struct sl_keypair pair;
	FILE *out = tmpfile();

	make_pair(); /* skips the test if libzmq has no CURVE */
	assert_non_null(out);
	assert_int_equal(sl_keygen(path_of("made"), out, NULL), SL_OK);
	assert_int_equal(sl_keygen(path_of("made"), out, NULL), SL_ERR_CANTCREATE);
	assert_int_equal(sl_keypair_load(&pair, path_of("made"), NULL), SL_OK);
	sl_key_print(&pair.public_key, text);
	rewind(out);
	assert_int_equal(fread(line, 1, sizeof line - 1, out), SL_KEY_TEXT);
	assert_memory_equal(line, text, SL_KEY_TEXT - 1);
	assert_int_equal(line[SL_KEY_TEXT - 1], '\n');
	fclose(out);
}

/* ---- allow-lists */

/* A key with the value `n` in every byte: every version of libzmq can spell it. */
static struct sl_key key_of(int n)
{
	struct sl_key key;

	memset(&key, n, sizeof key);
	return key;
}

static const char *text_of(int n)
{
	static char text[8][SL_KEY_TEXT];
	struct sl_key key = key_of(n);

	sl_key_print(&key, text[n % 8]);
	return text[n % 8];
}

static void a_list_names_its_keys(void **state)
{
	struct sl_key one = key_of(1), two = key_of(2), three = key_of(3), hash = key_of(0);
	struct sl_allow *allow;
	char text[1024], print[SL_KEY_TEXT];
	struct sl_fail fail;

	memset(&hash, 0xff, sizeof hash); /* the greatest key: its text does not begin with "#", as a remark does */
	sl_key_print(&hash, print);
	assert_int_equal(print[0], '%');
	snprintf(text, sizeof text,
		 "\xef\xbb\xbf# clients\n\n%s edge-2 #the second\r\n  %s\tedge-1\n#\n\t# x\n#%s\n%s odd", text_of(2),
		 text_of(1), text_of(3), print);
	assert_int_equal(sl_allow_parse(&allow, "clients", text, strlen(text), &fail), SL_OK);
	assert_int_equal(sl_allow_count(allow), 3);
	assert_string_equal(sl_allow_name(allow, &one), "edge-1");
	assert_string_equal(sl_allow_name(allow, &two), "edge-2");
	assert_string_equal(sl_allow_name(allow, &hash), "odd");
	assert_null(sl_allow_name(allow, &three));
	sl_allow_free(allow);
	assert_int_equal(sl_allow_parse(&allow, "clients", "", 0, &fail), SL_OK);
	assert_null(sl_allow_name(allow, &one));
	sl_allow_free(allow);
}

static void clients_may_train_with_groups(void **state)
{
	struct sl_key one = key_of(1), two = key_of(2), three = key_of(3);
	struct sl_allow *allow;
	struct sl_fail fail;
	char text[512];

	snprintf(text, sizeof text,
		 "# a remark with group=x in it\n%s a group=red,green # group=blue\n%s b # group=red\n", text_of(1),
		 text_of(2));
	assert_int_equal(sl_allow_parse(&allow, "clients", text, strlen(text), &fail), SL_OK);
	assert_string_equal(sl_allow_name(allow, &one), "a");
	assert_string_equal(sl_allow_name(allow, &two), "b");
	assert_true(sl_allow_in_group(allow, &one, "red") && sl_allow_in_group(allow, &one, "green"));
	assert_false(sl_allow_in_group(allow, &one, "blue") || sl_allow_in_group(allow, &one, "re") ||
		     sl_allow_in_group(allow, &one, "red,green") || sl_allow_in_group(allow, &one, ""));
	assert_false(sl_allow_in_group(allow, &two, "red") || sl_allow_in_group(allow, &three, "red"));
	sl_allow_free(allow);
}

static void hostile_lists_are_refused_with_their_line(void **state)
{
	static const struct {
		const char *form, *why; /* %1$s and %2$s: two keys */
	} bad[] = {
		{"%1$s\n", "clients:1: line has no name"},
		{"# x\n%1$s # a\n", "clients:2: line has no name"},
		{"%1$s a b\n", "clients:1: line must be KEY NAME"},
		{"%1$s a/b\n", "clients:1: line must be KEY NAME"},
		{"%1$s \x1b[2J\n", "clients:1: line must be KEY NAME"},
		{"%1$s aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
		 "clients:1: line must be KEY"},
		{"%1$.39s a\n", "clients:1: line must begin"},
		{"%1$sx a\n", "clients:1: line must begin"},
		{"secret %1$s\n", "clients:1: line a secret key"},
		{"%1$s a\n\n%1$s b\n", "clients: lines 1 and 3 have the same key"},
		{"%1$s a\n%2$s a\n", "clients: lines 1 and 2 have the same name"},
		{"* anybody\n", "clients:1: line must begin"},
		{"%1$s a group=\n", "clients:1: line names no group"},
		{"%1$s a group=g b\n", "clients:1: line must be KEY NAME group="},
		{"%1$s group=g\n", "clients:1: line has no name"},
		{"%1$s a b group=g\n", "clients:1: line must be KEY NAME"},
	};
	struct sl_allow *allow;
	struct sl_fail fail;
	char text[1024];

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		int n = fill(text, sizeof text, bad[i].form, text_of(1), text_of(2), "");

		assert_int_equal(sl_allow_parse(&allow, "clients", text, (size_t)n, &fail), SL_ERR_DATA);
		if (!strstr(fail.text, bad[i].why))
			fail_msg("\"%s\" lacks \"%s\"", fail.text, bad[i].why);
	}
	snprintf(text, sizeof text, "%s a", text_of(1));
	text[41] = 0; /* a name that is a NUL byte */
	assert_int_equal(sl_allow_parse(&allow, "clients", text, 42, &fail), SL_ERR_DATA);
	srand(3);
	for (int round = 0; round < 20000; round++) {
		int n = snprintf(text, sizeof text, "# c\n%s a\n%s b # d\n", text_of(1), text_of(2));
		int len = rand() % n + 1;

		for (int i = rand() % 4; i > 0; i--)
			text[rand() % n] = (char)(rand() % 4 ? "\n #\tsecret"[rand() % 10] : rand());
		if (sl_allow_parse(&allow, "clients", text, (size_t)len, &fail) == SL_OK) {
			assert_in_range(sl_allow_count(allow), 0, 2);
			sl_allow_free(allow);
		}
	}
}

static void lists_come_from_files(void **state)
{
	struct sl_allow *allow;
	struct sl_fail fail;
	char text[256], *long_text = calloc(1, (1 << 20) + 1);
	int n = snprintf(text, sizeof text, "%s a\n", text_of(1));

	assert_int_equal(sl_allow_load(&allow, put("list", text, (size_t)n, 0644), &fail), SL_OK);
	assert_int_equal(sl_allow_count(allow), 1);
	sl_allow_free(allow);
	assert_int_equal(sl_allow_load(&allow, path_of("none"), &fail), SL_ERR_NOINPUT);
	assert_non_null(long_text);
	assert_int_equal(sl_allow_load(&allow, put("list", long_text, (1 << 20) + 1, 0644), &fail), SL_ERR_LIMIT);
	free(long_text);
}

/* ---- the gate */

static struct sl_allow *list_of(int n)
{
	struct sl_allow *allow;
	char text[128];
	int len = snprintf(text, sizeof text, "%s a\n", text_of(n));

	assert_int_equal(sl_allow_parse(&allow, "list", text, (size_t)len, NULL), SL_OK);
	return allow;
}

static void a_gate_tells_its_first_refusal_and_counts_the_others(void **state)
{
	struct sl_key one = key_of(1), two = key_of(2), three = key_of(3);
	char address[100];
	struct sl_refusal told;
	struct sl_gate *gate;

	memset(address, 'x', sizeof address);
	assert_int_equal(sl_gate_open(&gate, list_of(1), NULL), SL_OK);
	assert_true(sl_gate_admit(gate, &one, "a", 1));
	assert_false(sl_gate_take_refusal(gate, &told));
	assert_false(sl_gate_admit(gate, &two, address, sizeof address));
	assert_false(sl_gate_admit(gate, &three, "b", 1));
	assert_true(sl_gate_take_refusal(gate, &told));
	assert_true(sl_key_equal(&told.key, &two));
	assert_int_equal(told.count, 2);
	assert_int_equal(strlen(told.address), SL_GATE_ADDRESS - 1);
	assert_false(sl_gate_take_refusal(gate, &told));
	sl_allow_free(sl_gate_swap(gate, list_of(2)));
	assert_true(sl_gate_admit(gate, &two, "a", 1));
	assert_false(sl_gate_admit(gate, &one, "127.0.0.1", 9));
	assert_true(sl_gate_take_refusal(gate, &told));
	assert_string_equal(told.address, "127.0.0.1");
	assert_int_equal(told.count, 1);
	sl_gate_close(gate);
}

struct reader {
	struct sl_gate *gate;
	atomic_bool stop;
	long admitted;
};

static void *read_on(void *arg)
{
	struct reader *r = arg;
	struct sl_key always = key_of(7), sometimes = key_of(1);

	while (!atomic_load(&r->stop)) {
		r->admitted += sl_gate_admit(r->gate, &sometimes, "", 0);
		if (sl_gate_admit(r->gate, &always, "", 0))
			return "a key that is on no list got in";
	}
	return NULL;
}

static void lists_are_swapped_under_a_reader(void **state)
{
	struct reader r = {0};
	struct sl_refusal told;
	pthread_t thread;
	void *fault;

	assert_int_equal(sl_gate_open(&r.gate, list_of(1), NULL), SL_OK);
	assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
	for (int i = 0; i < 5000; i++) {
		sl_allow_free(sl_gate_swap(r.gate, list_of(1 + i % 2)));
		sl_gate_take_refusal(r.gate, &told);
	}
	atomic_store(&r.stop, true);
	pthread_join(thread, &fault);
	if (fault)
		fail_msg("%s", (const char *)fault);
	sl_gate_close(r.gate);
}

/* ---- the handler's decision */

static struct sl_bytes bytes(const char *text)
{
	return (struct sl_bytes){(const uint8_t *)text, strlen(text)};
}

static void the_handler_decides(void **state)
{
	struct sl_key one = key_of(1), two = key_of(2), who;
	struct sl_bytes good[SL_ZAP_FRAMES] = {bytes("1.0"),
					       bytes("77"),
					       bytes("split"),
					       bytes("10.0.0.1"),
					       bytes(""),
					       bytes("CURVE"),
					       {one.byte, sizeof one.byte}};
	static const struct {
		int frame;
		const char *text;
	} wrong[] = {{0, "1.1"},   {0, ""},     {2, "other"},  {2, ""},
		     {5, "PLAIN"}, {5, "NULL"}, {5, "CURVE2"}, {6, "short"}};
	struct sl_gate *gate;

	assert_int_equal(sl_gate_open(&gate, list_of(1), NULL), SL_OK);
	assert_int_equal(sl_zap_decide(good, SL_ZAP_FRAMES, gate, &who), SL_ZAP_OK);
	assert_true(sl_key_equal(&who, &one));
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct sl_bytes frame[SL_ZAP_FRAMES];

		memcpy(frame, good, sizeof frame);
		frame[wrong[i].frame] = bytes(wrong[i].text);
		assert_int_equal(sl_zap_decide(frame, SL_ZAP_FRAMES, gate, &who), SL_ZAP_ERROR);
	}
	for (int n = 0; n < 12; n++)
		if (n != SL_ZAP_FRAMES)
			assert_int_equal(sl_zap_decide(good, n, gate, &who), SL_ZAP_ERROR);
	good[6].data = two.byte;
	assert_int_equal(sl_zap_decide(good, SL_ZAP_FRAMES, gate, &who), SL_ZAP_REFUSED);
	assert_true(sl_key_equal(&who, &two));
	sl_gate_close(gate);
}

/* Two tensors that collide under XXH3, whose secret is public. Where half of a lane equals its word
 * of the secret, the product is 0, and of the other half only a sum counts. */
static void a_hash_needs_its_key(void **state)
{
	static const uint32_t word[2] = {0x396cfeb8, 0x2c81017c};
	static const struct sl_key key = {.byte = "one"}, other = {.byte = "another"};
	float x[128] = {0}, y[128];

	memcpy(&x[0], &word[0], sizeof word[0]);
	memcpy(&x[16], &word[1], sizeof word[1]);
	memcpy(y, x, sizeof y);
	x[1] = y[17] = 1;
	x[17] = y[1] = 2;
	assert_true(sl_wire_hash((struct sl_bytes){(const uint8_t *)x, sizeof x}) ==
		    sl_wire_hash((struct sl_bytes){(const uint8_t *)y, sizeof y}));
	assert_true(sl_key_hash(&key, x, sizeof x) == sl_key_hash(&key, x, sizeof x));
	assert_true(sl_key_hash(&key, x, sizeof x) != sl_key_hash(&key, y, sizeof y));
	assert_true(sl_key_hash(&key, x, sizeof x) != sl_key_hash(&other, x, sizeof x));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_forty_characters_of_z85_are_a_key),
		cmocka_unit_test(a_saved_pair_is_private_and_never_overwritten),
		cmocka_unit_test(a_key_file_that_others_may_use_is_refused),
		cmocka_unit_test(key_files_are_read_strictly),
		cmocka_unit_test(a_public_key_is_given_as_text_or_file),
		cmocka_unit_test(keygen_prints_the_public_key_alone),
		cmocka_unit_test(a_list_names_its_keys),
		cmocka_unit_test(clients_may_train_with_groups),
		cmocka_unit_test(hostile_lists_are_refused_with_their_line),
		cmocka_unit_test(lists_come_from_files),
		cmocka_unit_test(a_hash_needs_its_key),
		cmocka_unit_test(a_gate_tells_its_first_refusal_and_counts_the_others),
		cmocka_unit_test(lists_are_swapped_under_a_reader),
		cmocka_unit_test(the_handler_decides),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
