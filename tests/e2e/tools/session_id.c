/* usage: session_id FILE [name] - prints the id of the session with this secret (log.dir/session-key) as 64 hexadecimal
 * digits, as a Hello has it. With `name`: its public name, as checkpoints have it. */
#include <stdio.h>

#include "common/link/proof.h"

int main(int argc, char **argv)
{
	FILE *file = argc >= 2 ? fopen(argv[1], "r") : NULL;
	uint8_t seed[SL_SECRET_BYTES];
	struct sl_secret secret;

	for (int i = 0; i < SL_SECRET_BYTES; i++)
		if (!file || fscanf(file, "%2hhx", &seed[i]) != 1)
			return 1;
	fclose(file);
	sl_secret_from(&secret, seed);
	if (argc > 2)
		sl_session_name(secret.session, secret.session);
	for (int i = 0; i < (argc > 2 ? 16 : SL_SESSION_BYTES); i++)
		printf("%02x", secret.session[i]);
	putchar('\n');
	return 0;
}
