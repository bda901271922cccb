/* The page of splitc leak: one file without scripts that loads nothing, for whoever decides about the data. It is
 * well-formed XML, too, so that a parser can check it. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/leak/leak.h"
#include "common/base/clock.h"
#include "common/base/html.h"
#include "common/base/version.h"
#include "common/link/wire.h"

static const char style[] =
	":root{color-scheme:light dark;--line:#c8ccd2;--soft:#5d6470;--bar:#7d9cc4;--back:#eef0f3}"
	"@media(prefers-color-scheme:dark){:root{--line:#444b55;--soft:#a2a9b4;--bar:#5577a5;--back:#23272d}}"
	"body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2.5rem auto;padding:0 1.2rem}"
	"h1{font-size:1.7rem;line-height:1.2;margin:0}h2{font-size:1.2rem;margin:2.2rem 0 .5rem}"
	"table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}"
	"th,td{text-align:left;vertical-align:top;padding:.4rem .7rem .4rem 0;border-bottom:1px solid var(--line)}"
	"th{font-weight:normal}thead th,small,.soft{color:var(--soft)}small{display:block;line-height:1.35}"
	".figures{table-layout:fixed}.figures th{width:4.5rem}.figures th:first-child{width:45%}"
	".figures th:nth-child(even){width:auto}.figures td{white-space:nowrap}.facts td{overflow-wrap:anywhere}"
	".bar{position:relative;display:block;width:7rem;height:.7rem;margin-top:.45rem;background:var(--back)}"
	".bar i{position:absolute;left:0;top:0;bottom:0;background:var(--bar)}"
	".bar u{position:absolute;top:-.2rem;bottom:-.2rem;border-left:2px solid currentColor}"
	"pre{background:var(--back);padding:.8rem;font-size:.85rem;white-space:pre-wrap;overflow-wrap:anywhere}"
	"img{max-width:100%;background:#fff}@media print{body{margin:0;max-width:none;font-size:11pt}"
	"tr,img{break-inside:avoid}.bar,.bar i{print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

static void fact(FILE *f, const char *name, const char *format, ...) SL_PRINTF(3, 4);
static void fact(FILE *f, const char *name, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	fprintf(f, "<tr><th>%s</th><td>", name);
	sl_print_html(f, text);
	fputs("</td></tr>\n", f);
}

static void put_base64(FILE *f, const uint8_t *data, size_t len)
{
	static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t at = 0; at < len; at += 3) {
		const size_t n = len - at < 3 ? len - at : 3;
		const uint32_t bits = (uint32_t)data[at] << 16 | (n > 1 ? (uint32_t)data[at + 1] << 8 : 0) |
				      (n > 2 ? (uint32_t)data[at + 2] : 0);

		for (size_t k = 0; k < 4; k++)
			fputc(k > n ? '=' : digit[bits >> (18 - 6 * k) & 63], f);
	}
}

/* ---- parts of the page */

static void measured(FILE *f, const struct sl_leak *l, const struct sl_setup *s, const struct sl_leak_report *report)
{
	const struct sl_agreed *a = &s->agreement.agreed;
	const char *each = sl_leak_words[l->kind];
	char shape[SL_SHAPE_TEXT], weights[64] = "trained", name[32];

	sl_shape_text(&l->victim.head, shape);
	fputs("<h2>What was measured</h2>\n<table class=\"facts\">\n", f);
	fact(f, "Versions", "splitc %s, protocol %d", SL_VERSION, SL_WIRE_VERSION);
	fact(f, "Network", "%s, cut at %s", s->plan->model->name, s->plan->cut.text);
	fact(f, "What crosses", "%s numbers of each %s", shape, each);
	fact(f, "Codecs",
	     "activations of the head: %s; of the middle: %s; gradients of the tail: %s; of the middle: %s",
	     a->codec[SL_DIR_HEAD_ACT], a->codec[SL_DIR_MID_ACT], a->codec[SL_DIR_MID_GRAD],
	     a->codec[SL_DIR_HEAD_GRAD]);
	if (s->noise.clip_act > 0)
		fact(f, "Noise", "samples are clipped to a norm of %g, their gradients to %g; %g times these norms",
		     s->noise.clip_act, s->noise.clip_grad, s->noise.head_act);
	else
		fact(f, "Noise", "%g times a sample's root mean square on activations, %g times on gradients",
		     s->noise.head_act, s->noise.mid_grad);
	if (!l->attack[SL_ATTACKER_START].made)
		snprintf(weights, sizeof weights, "those that a run begins with");
	else if (s->trained < INT64_MAX)
		snprintf(weights, sizeof weights, "after %" PRId64 " step%s of training", s->trained,
			 sl_plural(s->trained));
	fact(f, "Weights", "%s; fingerprint %s (XXH3-128)", weights, l->weights);
	fact(f, "Data", "%" PRId64 " %ss of the %s part were attacked; fingerprint %s (XXH3-128)", l->victim.n, each,
	     sl_setup_part(sl_setup_input(s), SL_SPLIT_TEST), l->samples);
	if (l->text.n)
		fact(f, "Texts",
		     "the labels of %" PRId64 " texts were attacked; where each token has a row, by their mean",
		     l->text.n);
	fact(f, "Attacker's data", "%" PRId64 " other %ss of that part, with which decoders were trained", l->aux,
	     each);
	for (int i = 0; i < SL_ATTACKERS; i++) {
		snprintf(name, sizeof name, "Attacker <em>%s</em>", sl_attackers[i]);
		if (l->attack[i].made)
			fact(f, name, "%d of %d steps of training its decoder%s", l->attack[i].steps, report->steps,
			     l->attack[i].steps < report->steps && !isnan(l->attack[i].guess[0])
				     ? ": its time was over. It may do better on another machine"
				     : "");
	}
	fact(f, "Seed", "%" PRIu64, s->plan->spec.seed);
	fputs("</table>\n", f);
}

/* A bar from 0 to 1 with a mark at the chance. */
static void put_bar(FILE *f, const struct sl_leak_figure *x)
{
	if (sl_leak_kinds[x->kind].unit == SL_LEAK_DB || isnan(x->value))
		return;
	fprintf(f, "<span class=\"bar\"><i style=\"width:%.1f%%\"></i>", 100 * fmin(1, fmax(0, x->value)));
	if (!isnan(x->chance))
		fprintf(f, "<u style=\"left:%.1f%%\"></u>", 100 * fmin(1, fmax(0, x->chance)));
	fputs("</span>", f);
}

static void put_figure(FILE *f, const struct sl_leak_figure *x)
{
	const struct sl_leak_kind_info *kind = &sl_leak_kinds[x->kind];
	const char *tag = kind->unit == SL_LEAK_SHARE && x->low > x->chance ? "b" : "span";
	char text[SL_LEAK_TEXT], range[SL_LEAK_RANGE_TEXT], classes[SL_LEAK_CLASSES_TEXT];

	fprintf(f, "<tr data-group=\"%s\" data-figure=\"", x->group);
	sl_print_html(f, x->key);
	fputs("\"><th>", f);
	sl_print_html(f, *kind->key ? kind->name : x->key);
	if (*kind->key)
		fprintf(f, "<small>%s</small>", kind->means);
	if (*sl_leak_classes_text(x, classes))
		fprintf(f, "<small>%s</small>", classes);
	fprintf(f, "</th><td><%s>%s</%s>", tag, sl_leak_text(x, x->value, text), tag);
	put_bar(f, x);
	fprintf(f, "</td><td>%s</td>", isnan(x->chance) ? "–" : sl_leak_text(x, x->chance, text));
	fprintf(f, "<td>%s</td><td>%" PRId64 "</td></tr>\n", sl_leak_range_text(x, range), x->n);
}

static void begin_group(FILE *f, const struct sl_leak_figure *x)
{
	static const char *const headings[][2] = {
		{"informed", "Reconstruction by the attacker <em>informed</em>"},
		{"informed_columns", "R² of each column, attacker <em>informed</em>"},
		{"start", "Reconstruction by the attacker <em>start</em>"},
		{"start_columns", "R² of each column, attacker <em>start</em>"},
		{"labels", "Labels"},
		{"site_a", "What member A, which has the data, learns of member B's labels"},
		{"site_b", "What member B, which has the labels, reconstructs of member A's data from mid_act"},
		{"site_b_columns", "R² of each column, by member B"},
		{"", "Without training a decoder"},
	};

	for (size_t k = 0; k < sizeof headings / sizeof headings[0]; k++)
		if (strcmp(headings[k][0], x->group) == 0)
			fprintf(f, "<h2>%s</h2>\n", headings[k][1]);
	if (x->kind == SL_LEAK_R2_COLUMN)
		fprintf(f, "<p class=\"soft\">%s</p>\n", sl_leak_kinds[x->kind].means);
	fputs("<table class=\"figures\"><thead><tr><th>figure</th><th>result</th><th>chance</th>"
	      "<th>range</th><th>samples</th></tr></thead><tbody>\n",
	      f);
}

static void figures(FILE *f, const struct sl_leak_figures *l)
{
	for (int i = 0; i < l->n; i++) {
		if (!i || strcmp(l->item[i].group, l->item[i - 1].group) != 0)
			begin_group(f, &l->item[i]);
		put_figure(f, &l->item[i]);
		if (i + 1 == l->n || strcmp(l->item[i].group, l->item[i + 1].group) != 0)
			fputs("</tbody></table>\n", f);
	}
}

/* The answer in front of its tables. */
static void in_short(FILE *f, const struct sl_leak_figures *figures)
{
	char text[SL_LEAK_SHORT_TEXT];

	fputs("<h2>In short</h2>\n<ul>\n", f);
	for (int of = 0; of < SL_LEAK_OFS; of++)
		fprintf(f, "<li><b>The %s</b>: %s.</li>\n", sl_leak_of_words[of], sl_leak_in_short(figures, of, text));
	fputs("</ul>\n", f);
}

static void pictures(FILE *f, const struct sl_leak *l, const uint8_t *sheet, size_t bytes)
{
	fprintf(f,
		"<h2>Pictures</h2>\n<p>Each pair is an original and what <em>informed</em> made of what crossed: the "
		"best,\n"
		"median and worst ones.%s They are pictures of your data: hand this page only to people who may see\n"
		"them.</p>\n<p><img alt=\"originals and reconstructions\" src=\"data:image/png;base64,",
		l->victim.volume.depth ? " Middle slices of a volume lie side by side, of the first sequence alone."
				       : "");
	put_base64(f, sheet, bytes);
	fputs("\"/></p>\n", f);
}

static const char limits[] =
	"<li>Whether a given sample was in the training set.</li>\n"
	"<li>What follows from many steps together, from the middle's weights, or from times and sizes of "
	"messages.</li>\n"
	"<li>A server that computes something else than was agreed: <code>splitc audit</code> looks for that.</li>\n"
	"</ul>\n<h2>Limits</h2>\n<ul>\n"
	"<li>A good reconstruction proves a leak. A bad one proves only that this decoder failed, in this time and "
	"with\n"
	"these data. Other attackers know more, train longer or change the protocol.</li>\n"
	"<li>The figures hold for these weights. Measure again when they have changed.</li>\n"
	"<li>The intervals cover the choice of samples alone: not another attacker, other data or another seed.</li>\n"
	"</ul>\n";

/* What the figures of volumes mean for people. */
static void volumes(FILE *f, const struct sl_leak *l)
{
	if (!l->victim.volume.depth)
		return;
	fprintf(f,
		"<h2>Volumes</h2>\n<p>The attackers reconstructed %d of %d slices, those in the middle, from what "
		"crossed of them and of their neighbours. SSIM is that of slices.</p>\n"
		"<p>A head that ends within the first level of a network keeps edges at full resolution, and so "
		"anatomy. A CT or MRI of a head has the face in it, and a face identifies a person, whatever the file "
		"is called. Look at the pictures: if they show a face, remove faces before training, or end the head "
		"behind more strides, or send fewer channels.</p>\n",
		l->victim.volume.n, l->victim.volume.depth);
}

static void omitted(FILE *f, const struct sl_leak *l)
{
	if (l->joint[0])
		fprintf(f, "<p>%s</p>\n", l->joint);
	fputs("<h2>What was not measured</h2>\n<ul>\n", f);
	for (int i = 0; i < SL_LEAK_OMISSIONS; i++)
		if (l->omitted[i])
			fprintf(f, "<li>%s</li>\n", l->omitted[i]);
	fputs(limits, f);
}

static void config(FILE *f, const struct sl_leak_report *report)
{
	fputs("<h2>Config as written</h2>\n<pre>", f);
	sl_print_html(f, report->config);
	for (int i = 0; i < report->n_set; i++) {
		fputs("\n--set ", f);
		sl_print_html(f, report->set[i]);
	}
	fputs("</pre>\n", f);
}

static const char intro[] =
	"<p>In split learning the data and their labels stay on their host, and a server computes the middle of the\n"
	"network. It sees activations and gradients. Here an attacker in its place tried to reconstruct %s\n"
	"from them. The attacker <em>informed</em> knows the weights of the head as they are. The attacker "
	"<em>start</em>\n"
	"knows only those that the run began with, which every server knows. Both have similar data.</p>\n"
	"<p>Beside each result stands what a guess without these tensors reaches: chance, a mark on the bar. The range "
	"of\n"
	"a share is its 95 %% interval (Wilson); other ranges run from the 10th to the 90th percentile. A share in "
	"bold\n"
	"is above chance by more than its interval. <em>Undefined</em>: what crosses holds NaN or Inf. It does not "
	"follow\n"
	"that nothing is seen.</p>\n";

void sl_leak_page(FILE *f, const struct sl_leak *l, const struct sl_setup *s, const struct sl_leak_report *report,
		  const uint8_t *sheet, size_t bytes)
{
	static const char *const kinds[] = {"pictures and labels", "words and labels", "rows of a table and labels"};
	const time_t now = sl_wall_s();
	char date[64];
	struct tm tm;

	strftime(date, sizeof date, "%Y-%m-%d %H:%M %Z", localtime_r(&now, &tm));
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\"\n"
	      "content=\"width=device-width\"/><title>What the server could learn</title>\n<style>",
	      f);
	fprintf(f, "%s</style></head><body>\n<h1>What the server could learn of these data</h1>\n", style);
	fprintf(f, "<p class=\"soft\">Measured by splitc leak on %s</p>\n", date);
	in_short(f, &l->figures);
	fputs("<h2>What was tried</h2>\n", f);
	fprintf(f, intro, l->victim.volume.depth ? "slices of volumes and labels" : kinds[l->kind]);
	figures(f, &l->figures);
	volumes(f, l);
	if (sheet)
		pictures(f, l, sheet, bytes);
	omitted(f, l);
	measured(f, l, s, report);
	config(f, report);
	fputs("</body></html>\n", f);
}
