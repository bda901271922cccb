/* Signals that come while no event loop takes them: while data are read, a network is built, a report is written. */
#ifndef SL_BASE_STOP_H
#define SL_BASE_STOP_H

/* From here on SIGINT, SIGTERM and, unless it is ignored (nohup), SIGHUP end the process with `status`, which says that
 * it was stopped, in place of the signal's own. Nothing may be half done by then: the process ends where it is. */
void sl_stop_with(int status);
/* The same with the status of the last call; without one, the default actions. After an event loop has had them. */
void sl_stop_again(void);

#endif
