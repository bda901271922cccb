#include "common/link/synfilter.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <string.h>

/* Offsets for a filter of a TCP socket: a segment begins with its TCP header, and SKF_NET_OFF reaches the IP header. */
enum {
	TCP_FLAGS = 13,
	SYN = 0x02,
	SYN_ACK = 0x12,
	IP_VERSION = SKF_NET_OFF + 0,
	IP4_SOURCE = SKF_NET_OFF + 12,
	IP6_SOURCE = SKF_NET_OFF + 8,
	PASS = 0x7fffffff,
	PER_ADDRESS = 5, /* instructions for an address, at most */
	HEAD = 16,
};

struct program {
	struct sock_filter code[HEAD + SL_ARRIVALS_SHUT * PER_ADDRESS];
	unsigned short len;
};

static void put(struct program *p, uint16_t code, uint32_t k, uint8_t jt, uint8_t jf)
{
	p->code[p->len++] = (struct sock_filter){code, jt, jf, k};
}

static uint32_t word(const struct sl_address *a, int at)
{
	uint32_t n;

	memcpy(&n, a->byte + at, sizeof n);
	return ntohl(n);
}

static bool is_ip4(const struct sl_address *a)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	return memcmp(a->byte, mapped, sizeof mapped) == 0;
}

static void drop_ip4(struct program *p, const struct sl_shut *shut)
{
	put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)IP4_SOURCE, 0, 0);
	for (int i = 0; i < shut->n; i++) {
		if (!is_ip4(&shut->address[i]))
			continue;
		put(p, BPF_JMP | BPF_JEQ | BPF_K, word(&shut->address[i], 12), 0, 1);
		put(p, BPF_RET | BPF_K, 0, 0, 0);
	}
	put(p, BPF_RET | BPF_K, PASS, 0, 0);
}

static void drop_ip6(struct program *p, const struct sl_shut *shut)
{
	for (int i = 0; i < shut->n; i++) {
		if (is_ip4(&shut->address[i]))
			continue;
		put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)IP6_SOURCE, 0, 0);
		put(p, BPF_JMP | BPF_JEQ | BPF_K, word(&shut->address[i], 0), 0, 3);
		put(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)(IP6_SOURCE + 4), 0, 0);
		put(p, BPF_JMP | BPF_JEQ | BPF_K, word(&shut->address[i], 4), 0, 1);
		put(p, BPF_RET | BPF_K, 0, 0, 0);
	}
	put(p, BPF_RET | BPF_K, PASS, 0, 0);
}

static void write_program(struct program *p, const struct sl_shut *shut)
{
	int branch;

	/* Established connections inherit the filter, so everything but a SYN passes. */
	put(p, BPF_LD | BPF_B | BPF_ABS, TCP_FLAGS, 0, 0);
	put(p, BPF_ALU | BPF_AND | BPF_K, SYN_ACK, 0, 0);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, SYN, 1, 0);
	put(p, BPF_RET | BPF_K, PASS, 0, 0);
	if (shut->all) {
		put(p, BPF_RET | BPF_K, 0, 0, 0);
		return;
	}
	put(p, BPF_LD | BPF_B | BPF_ABS, (uint32_t)IP_VERSION, 0, 0);
	put(p, BPF_ALU | BPF_AND | BPF_K, 0xf0, 0, 0);
	put(p, BPF_JMP | BPF_JEQ | BPF_K, 0x40, 1, 0);
	branch = p->len;
	put(p, BPF_JMP | BPF_JA, 0, 0, 0); /* to the code for IPv6, too far for a conditional jump */
	drop_ip4(p, shut);
	p->code[branch].k = (uint32_t)(p->len - branch - 1);
	drop_ip6(p, shut);
}

bool sl_synfilter_set(int fd, const struct sl_shut *shut)
{
	struct program p = {.len = 0};
	struct sock_fprog prog = {.filter = p.code};
	int domain = 0;
	socklen_t len = sizeof domain;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || (domain != AF_INET && domain != AF_INET6))
		return false;
	if (!shut->all && shut->n == 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &(int){0}, sizeof(int));
		return true;
	}
	write_program(&p, shut);
	prog.len = p.len;
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof prog) == 0;
}
