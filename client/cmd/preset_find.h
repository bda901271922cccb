/* What lies in the place that splitc init is given as its data. */
#ifndef SL_CLIENT_CMD_PRESET_FIND_H
#define SL_CLIENT_CMD_PRESET_FIND_H

#include "client/data/source.h"
#include "client/model/source.h"
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
/* Writes the names of the first classes, and how many more there are, as the text of *out. */
void sl_preset_name_classes(const struct sl_set *set, struct sl_fail *out);
/* How the user names data for networks with this input. */
const char *sl_preset_data_of(unsigned input);
/* What the network in a folder takes, with at most 128 tokens in a row. If the folder cannot be read, its plan fails
 * later, and says why. */
struct sl_model_takes sl_preset_takes_of(const char *folder);
/* The kind of the demo's data for networks with this input. */
const char *sl_preset_usual_kind(unsigned input, bool decoder);

/* The n-th usual place of the demo's data, from 0: data/cifar-10-batches-bin in the working directory, then
 * cifar-10-batches-bin in $XDG_DATA_HOME/split (~/.local/share/split). false: there are no more. */
bool sl_preset_place(int n, char out[PATH_MAX]);

#endif
