/* `splitc codecs --measure`: what each codec makes of a tensor, and how fast. */
#ifndef SL_CLIENT_CMD_MEASURE_H
#define SL_CLIENT_CMD_MEASURE_H

/* The arguments of `codecs`, --measure among them; returns an exit status. */
int splitc_measure(int argc, char **argv);

#endif
