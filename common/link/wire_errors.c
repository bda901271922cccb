#include "common/link/wire_errors.h"

#include <stddef.h>

static const struct {
	enum sl_err err;
	uint32_t number;
} err_numbers[] = {
	{SL_ERR_PROTOCOL, 1}, {SL_ERR_VERSION, 2},     {SL_ERR_LIMIT, 3},    {SL_ERR_AUTH, 4},
	{SL_ERR_MISMATCH, 5}, {SL_ERR_CONFIG, 6},      {SL_ERR_BUSY, 7},     {SL_ERR_UNAVAILABLE, 8},
	{SL_ERR_TIMEOUT, 9},  {SL_ERR_PEER_LOST, 10},  {SL_ERR_PAYLOAD, 11}, {SL_ERR_NONFINITE, 12},
	{SL_ERR_DATA, 13},    {SL_ERR_DEVICE, 14},     {SL_ERR_NOMEM, 15},   {SL_ERR_OS, 16},
	{SL_ERR_IO, 17},      {SL_ERR_CANTCREATE, 18}, {SL_ERR_NOINPUT, 19}, {SL_ERR_USAGE, 20},
	{SL_ERR_BUG, 21},     {SL_ERR_AUDIT, 22},      {SL_ERR_UNMET, 23},   {SL_ERR_SPENT, 24},
};
_Static_assert(sizeof err_numbers / sizeof err_numbers[0] == SL_ERR_COUNT - 1, "every error but OK has a wire number");

uint32_t sl_wire_number(uint32_t err)
{
	for (size_t i = 0; i < sizeof err_numbers / sizeof err_numbers[0]; i++)
		if ((uint32_t)err_numbers[i].err == err)
			return err_numbers[i].number;
	return 0;
}

uint32_t sl_wire_error(uint32_t number)
{
	for (size_t i = 0; i < sizeof err_numbers / sizeof err_numbers[0]; i++)
		if (err_numbers[i].number == number)
			return err_numbers[i].err;
	return SL_ERR_OK;
}
