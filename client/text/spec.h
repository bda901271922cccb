/* The specification of a tokenizer, read from its files and checked: Hugging Face's tokenizer.json, or vocab.json with
 * merges.txt (byte-level BPE), or vocab.txt (WordPiece), and beside them tokenizer_config.json. */
#ifndef SL_CLIENT_TEXT_SPEC_H
#define SL_CLIENT_TEXT_SPEC_H

#include <stdbool.h>

#include "client/text/unigram.h"
#include "client/text/vocab.h"
#include "common/base/buf.h"

enum {
	SL_TOK_FORM_MOST = 16,        /* pieces of a form */
	SL_TOK_ADDED_MOST = 16384,    /* added tokens */
	SL_TOK_ADDED_BYTES = 256,     /* of one added token */
	SL_TOK_FILE_MOST = 64 << 20,  /* bytes of a file */
	SL_TOK_PREFIX_BYTES = 16,     /* of the prefix of pieces inside a word, with its NUL */
	SL_TOK_WORD_CHARS_MOST = 1000 /* the highest limit that word_chars may have */
};

/* MARKED: BPE in which spaces are marks, and merges begin with characters (marked.h); BPE: merges begin with bytes.
 * UNIGRAM: words begin with marks (unigram.h). */
enum sl_tok_kind { SL_TOK_BPE, SL_TOK_MARKED, SL_TOK_WORDPIECE, SL_TOK_UNIGRAM };

/* The pattern by which byte-level BPE divides a text into words (pattern.h). */
enum sl_tok_words {
	SL_TOK_WORDS_GPT2,
	SL_TOK_WORDS_LLAMA3,
	SL_TOK_WORDS_QWEN2,
	SL_TOK_WORDS_PHI4, /* GPT-4o's */
	SL_TOK_WORDS_DIGITS,
	SL_TOK_WORDS_COUNT
};

/* Which stretches between added tokens get a mark in front, if spaces are marks (marked.h). NONE: none. EACH: each one.
 * LACKING: each that does not begin with a space. FIRST: the text's first one, if it does not begin with a space. */
enum sl_tok_lead { SL_TOK_LEAD_NONE, SL_TOK_LEAD_EACH, SL_TOK_LEAD_LACKING, SL_TOK_LEAD_FIRST };

/* Two adjacent ids, left and right, become `made`. The index in the list is the rank: low ranks are merged first. */
struct sl_tok_merge {
	int32_t left, right, made;
};

/* A token that is searched in the text before all else, such as <mask>. lstrip, rstrip: it also takes the white space
 * on that side. */
struct sl_tok_added {
	char *text;
	uint32_t len;
	int32_t id;
	bool lstrip, rstrip;
	bool special; /* decoding leaves it out */
};

enum sl_tok_part { SL_TOK_PART_ID, SL_TOK_PART_A, SL_TOK_PART_B };

/* The pieces of a sample: special tokens, the first text, the second. Token types are 0, then perhaps 1. */
struct sl_tok_form {
	struct {
		enum sl_tok_part part;
		int32_t id; /* of SL_TOK_PART_ID */
		int type;
	} piece[SL_TOK_FORM_MOST];
	int n, specials; /* number of pieces, and of those that are SL_TOK_PART_ID */
};

struct sl_tok_spec {
	enum sl_tok_kind kind;
	struct sl_vocab vocab;
	struct sl_tok_added *added;
	int n_added;
	struct sl_tok_form single, pair;
	int32_t unk; /* -1: none */

	struct sl_tok_merge *merge; /* BPE */
	int32_t n_merge;
	int32_t byte_id[256]; /* -1: no token, and the byte is in no UTF-8 */
	bool prefix_space;    /* a space goes in front of a text that begins with none */
	bool nfc;             /* the text is composed first (Unicode's NFC) */
	bool whole_words;     /* a word that is a token is not merged (ignore_merges) */
	bool cut_front;       /* longer texts lose their first tokens (truncation_side: left), not their last */
	enum sl_tok_words words;
	enum sl_tok_lead lead; /* MARKED, UNIGRAM */

	struct sl_unigram unigram;

	char prefix[SL_TOK_PREFIX_BYTES]; /* WordPiece: "##" */
	int word_chars;                   /* longer words are `unk` */
	bool clean, han, lower, strip;    /* clean up, spaces round Chinese characters, lower case, no accents */
};

/* A file's contents; data NULL: there is no such file. `name` is for errors. */
struct sl_tok_file {
	const char *name;
	struct sl_bytes bytes;
};

/* tokenizer.json, vocab.json, merges.txt, vocab.txt, tokenizer_config.json, added_tokens.json. */
struct sl_tok_files {
	struct sl_tok_file json, vocab, merges, words, config, added;
};

/* DATA: a file is malformed, and *fail names it, and the line or member; CONFIG: a kind of tokenizer that is not
 * supported; NOINPUT: the files make no tokenizer; LIMIT, NOMEM. */
enum sl_err sl_tok_spec_parse(struct sl_tok_spec *spec, const struct sl_tok_files *files,
			      struct sl_fail *fail) SL_MUST_CHECK;
/* Reads the files of a folder, or one file of any name: a tokenizer.json, or else a vocab.txt. *hash is the XXH3 of the
 * files. Errors as above. */
enum sl_err sl_tok_spec_read(struct sl_tok_spec *spec, const char *path, uint64_t *hash,
			     struct sl_fail *fail) SL_MUST_CHECK;
void sl_tok_spec_free(struct sl_tok_spec *spec); /* idempotent; a zeroed one is fine */

/* The character as which byte-level BPE writes a byte. */
uint32_t sl_tok_char_of(int byte);

#endif
