/* A program in C trains a middle on a server: examples/run middle.c local: 300
 * Arguments: the server, and the number of steps. The head is the identity, the loss is ½·|y - t|²,
 * and a fixed linear layer makes the target t of x. With the package libsplit-dev:
 * cc middle.c $(pkg-config --cflags --libs split) -o middle */
#include <split.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 32, IN = 8, OUT = 4 };

static const char graph[] = "graph 1\n"
			    "in head_act f32 R[8]\n"
			    "param 0.weight [16,8] uniform:0.35:0\n"
			    "param 2.weight [4,16] uniform:0.25:1\n"
			    "node 0 linear %0 &0\n"
			    "node 1 act %1\n"
			    "node 2 linear %2 &1\n"
			    "out mid_act %3\n";

static void check(int code, const split_error *e)
{
	if (code == SPLIT_OK)
		return;
	fprintf(stderr, "step %llu: %s: %s\n", (unsigned long long)e->step, e->name, e->text);
	exit(e->status);
}

/* Pseudo-random numbers from -1 to 1, the same in every run. */
static float number(unsigned *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (float)(*seed >> 8) / (1 << 23) - 1;
}

int main(int argc, char **argv)
{
	static float x[ROWS * IN], y[ROWS * OUT], dy[ROWS * OUT], dx[ROWS * IN];
	split_error e = {.size = sizeof e};
	split_conf *conf = split_conf_new();
	split_middle *middle = NULL;
	unsigned seed = 1;
	int call;

	if (!conf || argc != 3)
		return 64;
	check(split_conf_set(conf, "server", argv[1], &e), &e);
	check(split_conf_set(conf, "train.batch", "32", &e), &e);
	check(split_conf_set(conf, "train.chunks", "2", &e), &e);
	check(split_conf_graph(conf, graph, &e), &e);
	check(split_open(&middle, conf, -1, &e), &e);
	split_conf_free(conf);
	for (int step = 0; step < atoi(argv[2]); step++) {
		double loss = 0;

		for (int i = 0; i < ROWS * IN; i++)
			x[i] = number(&seed);
		check(split_forward(middle, 1, ROWS, NULL, x, &call, &e), &e);
		check(split_output(middle, call, y, -1, &e), &e);
		for (int i = 0; i < ROWS * OUT; i++) {
			const float *row = x + i / OUT * IN, t = row[i % OUT] - row[i % OUT + OUT];

			dy[i] = (y[i] - t) / ROWS;
			loss += 0.5 * (double)(y[i] - t) * (y[i] - t) / ROWS;
		}
		check(split_backward(middle, call, dy, &e), &e);
		check(split_input_grad(middle, call, dx, -1, &e), &e);
		check(split_step(middle, 0.2, 1, -1, &e), &e);
		if (step % 100 == 99)
			printf("step %d loss %.4f\n", step + 1, loss);
	}
	split_close(middle, 1);
	return 0;
}
