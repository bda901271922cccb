/* Predictions while lines come: on standard input, or from the clients of a socket. What has come goes to the server as
 * one batch, at most train.batch lines; what comes meanwhile is the next one. Each line gets a line of JSON, in its
 * client's order: its prediction, or an error. While the server is away every line gets that error, and the link is
 * made anew. */
#ifndef SL_CLIENT_PREDICT_STREAM_H
#define SL_CLIENT_PREDICT_STREAM_H

#include "client/predict/predict.h"
#include "client/setup/setup.h"

struct sl_stream_spec {
	struct sl_predict *predict; /* open, for JSON */
	const char *path;           /* of the socket; NULL: standard input and output */
	bool local;                 /* this process computes the middle, too */
};

/* setup->streams is set, and all is open. Returns once standard input has ended, or after a signal. With a socket a
 * signal is OK; with standard input UNAVAILABLE. A line without a prediction: the first one's error. */
enum sl_err sl_stream_run(struct sl_setup *setup, const struct sl_stream_spec *spec,
			  struct sl_fail *fail) SL_MUST_CHECK;

#endif
