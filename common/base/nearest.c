#include "common/base/nearest.h"

#include <string.h>

enum { MOST_EDITS = 3 };

static int min3(int a, int b, int c)
{
	int m = a < b ? a : b;

	return m < c ? m : c;
}

int sl_nearest_edits(const char *a, size_t len, const char *b)
{
	int row[3][SL_NEAREST_LONGEST + 1], *before = row[0], *prev = row[1], *cur = row[2];
	int la = (int)len, lb = (int)strlen(b);

	for (int j = 0; j <= lb; j++)
		prev[j] = j;
	for (int i = 1; i <= la; i++) {
		int *spare = before;

		cur[0] = i;
		for (int j = 1; j <= lb; j++) {
			cur[j] = min3(prev[j] + 1, cur[j - 1] + 1, prev[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    before[j - 2] + 1 < cur[j])
				cur[j] = before[j - 2] + 1;
		}
		before = prev;
		prev = cur;
		cur = spare;
	}
	return prev[lb];
}

void sl_nearest_offer(struct sl_nearest *best, const char *name, size_t len, const char *candidate)
{
	int most = (int)(len + 1) / 3, d;

	if (len > SL_NEAREST_LONGEST || strlen(candidate) > SL_NEAREST_LONGEST)
		return;
	most = most < 1 ? 1 : most > MOST_EDITS ? MOST_EDITS : most;
	d = sl_nearest_edits(name, len, candidate);
	if (d > most || d >= (int)len || (best->name && d >= best->edits))
		return;
	*best = (struct sl_nearest){candidate, d};
}
