/* Rows of a table, one macro per type: ROW(struct, path, field, …, default, help). */
#ifndef SL_CONF_ROW_H
#define SL_CONF_ROW_H

#include "common/conf/key.h"

/* clang-format off */
#define SL_FIELD(st, f) .offset = offsetof(st, f), .size = sizeof(((st *)0)->f)
#define SL_INT(st, p, f, lo, hi, def, u, h) \
	{.path = p, .type = SL_CONF_INT, SL_FIELD(st, f), .min = lo, .max = hi, .preset = def, .unit = u, .help = h}
#define SL_INT64(st, p, f, lo, hi, def, u, h) \
	{.path = p, .type = SL_CONF_INT64, SL_FIELD(st, f), .min = lo, .max = hi, .preset = def, .unit = u, .help = h}
#define SL_BYTES(st, p, f, lo, hi, def, h) \
	{.path = p, .type = SL_CONF_BYTES, SL_FIELD(st, f), .min = lo, .max = hi, .preset = def, .help = h}
#define SL_DOUBLE(st, p, f, lo, hi, def, u, h) \
	{.path = p, .type = SL_CONF_DOUBLE, SL_FIELD(st, f), .min = lo, .max = hi, .preset = def, .unit = u, .help = h}
#define SL_SIZE(st, p, f, lo, hi, def, u, h) \
	{.path = p, .type = SL_CONF_SIZE, SL_FIELD(st, f), .min = lo, .max = hi, .preset = def, .unit = u, .help = h}
#define SL_BOOL(st, p, f, def, h) \
	{.path = p, .type = SL_CONF_BOOL, SL_FIELD(st, f), .preset = def, .help = h}
#define SL_STRING_ROW(st, p, f, chk, def, h) \
	.path = p, .type = SL_CONF_STRING, SL_FIELD(st, f), .check = chk, .preset = def, .help = h
#define SL_STRING(...) {SL_STRING_ROW(__VA_ARGS__)}
#define SL_CHOICE(st, p, f, list, def, h) \
	{.path = p, .type = SL_CONF_CHOICE, SL_FIELD(st, f), .choices = list, .preset = def, .help = h}
#define SL_CHOICE_BESIDE(st, p, f, list, def, other, h) \
	{.path = p, .type = SL_CONF_CHOICE, SL_FIELD(st, f), .choices = list, .beside = other, .preset = def, .help = h}
#define SL_NAMES(st, p, f, chk, def, h) \
	{.path = p, .type = SL_CONF_NAMES, SL_FIELD(st, f), .check = chk, .preset = def, .help = h}
#define SL_NAME_OR_NAMES(st, p, f, chk, def, h) \
	{.path = p, .type = SL_CONF_NAMES, SL_FIELD(st, f), .check = chk, .preset = def, .help = h, .or_one = true}
#define SL_RECORDS(st, p, f, chk, def, h) \
	{.path = p, .type = SL_CONF_NAMES, SL_FIELD(st, f), .check = chk, .preset = def, .help = h, .records = true}
#define SL_SECTIONS(st, p, f, chk, def, h) \
	{.path = p, .type = SL_CONF_NAMES, SL_FIELD(st, f), .check = chk, .preset = def, .help = h, .records = true, .sections = true}
/* clang-format on */

#define SL_WORDS(...)             \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

#endif
