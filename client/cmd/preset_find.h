/* What lies in the place that splitc init is given as its data. */
#ifndef SL_CLIENT_CMD_PRESET_FIND_H
#define SL_CLIENT_CMD_PRESET_FIND_H

#include "common/conf/conf.h"

struct sl_preset_data {
	const char *kind;                              /* a word of data.kind */
	const char *what;                              /* for the user: "pictures in class folders"; NULL: not known */
	char dir[PATH_MAX];                            /* data.dir */
	struct sl_conf_list files;                     /* data.train_files; none: the usual ones */
	bool masks;                                    /* pictures have masks */
	char labels[PATH_MAX], label_id[SL_CONF_TEXT]; /* of pictures: data.labels, "": none; its column of names */
};

/* A kind of data. */
struct sl_preset_kind {
	const char *kind, *folder, *classes; /* classes NULL: they are counted */
	unsigned input;                      /* SL_NETWORK_…: the networks that take it */
	const char *model;                   /* the usual network; NULL: the user must name a folder */
};
extern const struct sl_preset_kind sl_preset_kinds[]; /* the first one of each input is the usual one */

/* Reads KIND:PLACE, KIND, or a file or folder, and looks what it is. `tokens`: the network reads texts. CONFIG: there
 * is no such kind; DATA: none of these data is there, and *fail says what was found; NOINPUT. */
enum sl_err sl_preset_find_kind(const struct sl_preset_kind **out, struct sl_preset_data *at, const char *data,
				bool tokens, struct sl_fail *fail) SL_MUST_CHECK;
/* The kind of the demo's data for networks with this input. */
const char *sl_preset_usual_kind(unsigned input, bool decoder);

/* The n-th usual place of the demo's data, from 0: data/cifar-10-batches-bin in the working directory, then
 * cifar-10-batches-bin in $XDG_DATA_HOME/split (~/.local/share/split). false: there are no more. */
bool sl_preset_place(int n, char out[PATH_MAX]);

#endif
