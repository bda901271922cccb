// usage: node make.mjs DATA HARD.jsonl, in a folder with the packages and the files of make_text: see make.sh.
// A digest is the SHA-256 of, for each row, its number of ids, how many of them have token type 0, and the ids: all u32,
// little endian.
import crypto from 'node:crypto';
import fs from 'node:fs';
import {Tokenizer} from '@huggingface/tokenizers';
import rust from 'tokenizers';

const [data, hardFile] = process.argv.slice(2);
const CUT = 40; // ids of a row that is cut
const json = file => JSON.parse(fs.readFileSync(file, 'utf8'));
const lines = file => fs.readFileSync(file, 'utf8').split('\n').filter(line => line !== '');

// tokenizer.json from the older files: as transformers' converters write it for RoBERTa and BERT
function roberta(vocabFile, mergesFile) {
	const vocab = json(vocabFile);
	const token = (content, lstrip = false) =>
		({id: vocab[content], content, special: true, single_word: false, lstrip, rstrip: false, normalized: true});
	return {
		version: '1.0', truncation: null, padding: null, normalizer: null,
		added_tokens: [token('<s>'), token('<pad>'), token('</s>'), token('<unk>'), token('<mask>', true)],
		pre_tokenizer: {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true},
		post_processor: {type: 'RobertaProcessing', sep: ['</s>', vocab['</s>']], cls: ['<s>', vocab['<s>']],
			trim_offsets: true, add_prefix_space: false},
		decoder: {type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true},
		model: {type: 'BPE', dropout: null, unk_token: null, continuing_subword_prefix: '', end_of_word_suffix: '',
			fuse_unk: false, vocab, merges: lines(mergesFile).slice(1)},
	};
}

function bert(vocabFile) {
	const vocab = Object.fromEntries(lines(vocabFile).map((token, id) => [token, id]));
	const special = id => ({SpecialToken: {id: `[${id}]`, type_id: 0}});
	const text = (id, type_id) => ({Sequence: {id, type_id}});
	const ids = name => ({id: name, ids: [vocab[name]], tokens: [name]});
	return {
		version: '1.0', truncation: null, padding: null,
		added_tokens: ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'].map(content =>
			({id: vocab[content], content, special: true, single_word: false, lstrip: false, rstrip: false, normalized: false})),
		normalizer: {type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true},
		pre_tokenizer: {type: 'BertPreTokenizer'},
		post_processor: {type: 'TemplateProcessing', single: [special('CLS'), text('A', 0), special('SEP')],
			pair: [special('CLS'), text('A', 0), special('SEP'), text('B', 1), {SpecialToken: {id: '[SEP]', type_id: 1}}],
			special_tokens: {'[CLS]': ids('[CLS]'), '[SEP]': ids('[SEP]')}},
		decoder: {type: 'WordPiece', prefix: '##', cleanup: true},
		model: {type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 100, vocab},
	};
}

// Both packages, as functions from texts to ids
function both(name, config) {
	const js = new Tokenizer(config, {});
	const file = `${name}.json`;
	fs.writeFileSync(file, JSON.stringify(config));
	const rs = rust.Tokenizer.fromFile(file), cut = rust.Tokenizer.fromFile(file);
	cut.setTruncation(CUT);
	return {
		name,
		js: async (a, b) => js.encode(a, {text_pair: b ?? null}).ids,
		rust: async (a, b) => (await rs.encode(a, b ?? null)).getIds(),
		// of Rust's alone: JavaScript gives RoBERTa's second texts the type 1, which that model does not have
		first: async (a, b) => (await rs.encode(a, b ?? null)).getTypeIds().filter(type => type === 0).length,
		cut: async (a, b) => await cut.encode(a, b ?? null),
	};
}

async function digest(set, tokenizer, by, rows, other) {
	const hash = crypto.createHash('sha256');
	let tokens = 0, differ = 0;
	for (const [a, b] of rows) {
		const ids = await tokenizer[by](a, b);
		// one text has no second type; strings differ in length between the packages
		const first = b === undefined ? ids.length : await tokenizer.first(a, b);
		hash.update(Buffer.from(Uint32Array.from([ids.length, first, ...ids].map(Number)).buffer));
		tokens += ids.length;
		differ += String(await tokenizer[other](a, b)) !== String(ids);
	}
	console.error(`${set} ${tokenizer.name}: ${rows.length} rows, ${tokens} tokens by ${by}; ${other} differs in ${differ}`);
	console.log(`${set} ${tokenizer.name} ${rows.length} ${tokens} ${hash.digest('hex')}`);
}

// Rows that are cut to CUT ids, by Rust alone: JavaScript does not cut pairs as Python does
async function cutDigest(set, tokenizer, rows) {
	const hash = crypto.createHash('sha256');
	let tokens = 0, whole = 0;
	for (const [a, b] of rows) {
		const row = await tokenizer.cut(a, b), ids = row.getIds();
		const first = b === undefined ? ids.length : row.getTypeIds().filter(type => type === 0).length;
		hash.update(Buffer.from(Uint32Array.from([ids.length, first, ...ids].map(Number)).buffer));
		tokens += ids.length;
		whole += ids.length < CUT;
	}
	console.error(`${set} ${tokenizer.name}: ${rows.length} rows, ${tokens} tokens, ${whole} rows shorter than ${CUT}`);
	console.log(`${set} ${tokenizer.name} ${rows.length} ${tokens} ${hash.digest('hex')}`);
}

function strings() {
	const all = fs.readFileSync('strings.bin'), out = [];
	for (let at = 0; at < all.length; at += 4 + all.readUInt32LE(at))
		out.push([all.subarray(at + 4, at + 4 + all.readUInt32LE(at)).toString('utf8')]);
	return out;
}

const hard = lines(hardFile).map(line => [JSON.parse(line).text]);
const tokenizers = [both('made-bpe', roberta('vocab.json', 'merges.txt')), both('made-wordpiece', bert('vocab.txt'))];
if (fs.existsSync(`${data}/roberta_tokenizer/tokenizer.json`))
	tokenizers.push(both('roberta', json(`${data}/roberta_tokenizer/tokenizer.json`)));
if (fs.existsSync(`${data}/bert_uncased_vocab.txt`))
	tokenizers.push(both('bert', bert(`${data}/bert_uncased_vocab.txt`)));

console.log('# set, tokenizer, rows, tokens, SHA-256; written by make.sh');
for (const tokenizer of tokenizers) {
	// Rust's tables of categories are those of Unicode 8, JavaScript knows no Chinese beyond U+FFFF and looks at the
	// neighbours of a capital sigma: each does what the other cannot.
	await digest('strings', tokenizer, 'js', strings(), 'rust');
	await digest('hard', tokenizer, 'rust', hard, 'js');
	for (const split of tokenizer.name.startsWith('made') ? [] : ['train', 'dev', 'test']) {
		const cola = `${data}/glue/CoLA/${split}.tsv`, rte = `${data}/glue/RTE/${split}.tsv`;
		const column = split === 'test' ? 1 : 3, skip = split === 'test' ? 1 : 0;
		if (fs.existsSync(cola)) {
			const rows = lines(cola).slice(skip).map(row => [row.split('\t')[column]]);
			await digest(`cola-${split}`, tokenizer, 'js', rows, 'rust');
			await cutDigest(`cola-${split}/${CUT}`, tokenizer, rows);
		}
		if (fs.existsSync(rte)) {
			const rows = lines(rte).slice(1).map(row => row.split('\t').slice(1, 3));
			await digest(`rte-${split}`, tokenizer, 'js', rows, 'rust');
			await cutDigest(`rte-${split}/${CUT}`, tokenizer, rows);
		}
	}
}
