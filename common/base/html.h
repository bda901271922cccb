/* Text in a page. */
#ifndef SL_BASE_HTML_H
#define SL_BASE_HTML_H

#include <stdio.h>

/* Writes `text` so that nothing in it is markup, also within quotes. What is not a character of a text becomes U+FFFD;
 * line feeds and tabs stay. */
void sl_print_html(FILE *to, const char *text);

#endif
