#include "common/base/html.h"

#include <string.h>

#include "common/base/err.h"

void sl_print_html(FILE *to, const char *text)
{
	for (size_t left = strlen(text), n; left; text += n, left -= n) {
		n = *text == '\n' || *text == '\t' ? 1 : sl_text_character(text, left);
		if (!n)
			fputs("&#xFFFD;", to);
		else if (strchr("<>&\"'", *text))
			fprintf(to, "&#%d;", *text);
		else
			fwrite(text, 1, n, to);
		n = n ? n : 1;
	}
}
