/* The version of the software: what --version, Hello and logs say. The protocol's is SL_WIRE_VERSION. */
#ifndef SL_BASE_VERSION_H
#define SL_BASE_VERSION_H

#define SL_VERSION "0.2.0"

#endif
