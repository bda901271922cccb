/* `splitc codecs --measure`: size, error and speed of codecs on a tensor. */
#ifndef SL_CLIENT_CMD_MEASURE_H
#define SL_CLIENT_CMD_MEASURE_H

/* `argv`: the arguments of `codecs`, --measure among them; returns an exit status. */
int splitc_measure(int argc, char **argv);

#endif
