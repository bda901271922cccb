// usage: node tokens.mjs TOKENIZER.json FILE
// Prints the tokens per second of Hugging Face's JavaScript and Rust packages on the lines of FILE, the most of 3 passes,
// as JSON. With RAYON_NUM_THREADS=1 in the environment Rust uses one thread.
import fs from 'node:fs';
import {Tokenizer} from '@huggingface/tokenizers';
import rust from 'tokenizers';

const [config, file] = process.argv.slice(2);
const lines = fs.readFileSync(file, 'utf8').split('\n').filter(line => line !== '');
const js = new Tokenizer(JSON.parse(fs.readFileSync(config, 'utf8')), {});
const rs = rust.Tokenizer.fromFile(config);

async function best(pass) {
	let most = 0, tokens;
	for (let i = 0; i < 3; i++) {
		const start = process.hrtime.bigint();
		tokens = await pass();
		most = Math.max(most, tokens / (Number(process.hrtime.bigint() - start) / 1e9));
	}
	return {tokens, tokens_per_s: Math.round(most)};
}
const sum = (total, ids) => total + ids.length;
console.log(JSON.stringify({
	javascript: await best(async () => lines.map(line => js.encode(line).ids).reduce(sum, 0)),
	rust: await best(async () => (await rs.encodeBatch(lines)).map(out => out.getIds()).reduce(sum, 0)),
}));
