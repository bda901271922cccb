#include "client/cmd/run_report_words.h"

#include <stddef.h>
#include <string.h>

const struct sl_report_tensor sl_report_tensors[] = {
	{"head_act", "what this host's first layers make of each sample: it tells of the data", true},
	{"mid_act", "what the server makes of that", false},
	{"mid_grad", "how the loss would change with mid_act: it tells of the labels", true},
	{"head_grad", "how the loss would change with head_act", false},
	{"end_grad", "the change of this host's own layers, which the group shares", true},
	{"end_mean", "the group's mean of these changes", false},
	{NULL, NULL, false}};

const char *sl_report_word(const char *word)
{
	static const char *const means[][2] = {
		{"steps", "the steps that no audit computed"},
		{"evaluations", "the batches of evaluations that no audit computed"},
		{"earlier", "what earlier processes of this run left unchecked"},
		{"phase-start", "the state with which the last phase began"},
		{"members", "what the other members added"},
		{"times", "its times"},
		{"checkpoints", "that it wrote its checkpoints"},
	};

	for (size_t i = 0; i < sizeof means / sizeof means[0]; i++)
		if (word && strcmp(word, means[i][0]) == 0)
			return means[i][1];
	return word ? word : "?";
}
