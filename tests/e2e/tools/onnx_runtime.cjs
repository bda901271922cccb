// Compares what `splitc predict` and ONNX Runtime compute from the same pictures or rows.
// usage: node onnx_runtime.cjs make DIR SIDE CHANNELS CLASSES     pictures DIR/{train,val}/class-N/M.{ppm,pgm}
//        node onnx_runtime.cjs rows DIR COLUMNS CLASSES           DIR/{train,test}.csv; numbers of mean 0 and deviation 1
//        node onnx_runtime.cjs compare NETWORK.onnx LOGITS.csv [ROWS.csv]
// compare prints the largest difference, relative to the largest logit. Exit status 1: it is above 1e-5.
// onnxruntime-node is found by NODE_PATH.
const fs = require('fs'), path = require('path');
const [what, first, ...more] = process.argv.slice(2);
let seed = 1;
const random = (n) => (seed = (seed * 48271) % 2147483647) % n;

function makePictures(dir, side, channels, classes) {
	for (const part of ['train', 'val'])
		for (let i = 0; i < 24; i++) {
			const folder = path.join(dir, part, `class-${i % classes}`), pixels = Buffer.alloc(side * side * channels);
			for (let k = 0; k < pixels.length; k++) pixels[k] = random(256);
			fs.mkdirSync(folder, {recursive: true});
			fs.writeFileSync(path.join(folder, `${i}.${channels === 1 ? 'pgm' : 'ppm'}`),
				Buffer.concat([Buffer.from(`P${channels === 1 ? 5 : 6} ${side} ${side} 255\n`), pixels]));
		}
}

function makeRows(dir, columns, classes) {
	fs.mkdirSync(dir, {recursive: true});
	for (const part of ['train', 'test']) {
		const lines = [[...Array(columns).keys()].map((c) => `c${c}`).join() + ',label'];
		for (let i = 0; i < 32; i++)
			lines.push([...Array(columns).keys()].map((c) => ((i >> c) & 1) * 2 - 1).join() + ',' + random(classes));
		fs.writeFileSync(path.join(dir, part + '.csv'), lines.join('\n') + '\n');
	}
}

// A picture as [channels, height, width] of 0 to 1.
function picture(file) {
	const bytes = fs.readFileSync(file), [magic, side] = bytes.toString('latin1', 0, 20).split(' ');
	const channels = magic === 'P5' ? 1 : 3, n = side * side, from = bytes.length - n * channels;
	const x = new Float32Array(n * channels);
	for (let c = 0; c < channels; c++) for (let i = 0; i < n; i++) x[c * n + i] = bytes[from + i * channels + c] / 255;
	return {x, shape: [channels, +side, +side]};
}

function rowsOf(file) {
	return fs.readFileSync(file, 'utf8').trim().split('\n').slice(1).map((line) => {
		const x = Float32Array.from(line.split(',').slice(0, -1).map(Number));
		return {x, shape: [x.length]};
	});
}

async function compare(network, logits, rows) {
	const ort = require('onnxruntime-node');
	const [header, ...lines] = fs.readFileSync(logits, 'utf8').trim().split('\n').map((l) => l.split(','));
	const at = header.flatMap((name, i) => (name.startsWith('logit') ? [i] : []));
	const samples = rows ? rowsOf(rows) : lines.map((l) => picture(l[header.indexOf('name')]));
	const size = samples[0].x.length, all = new Float32Array(size * samples.length);
	samples.forEach((s, i) => all.set(s.x, i * size));
	const session = await ort.InferenceSession.create(network, {logSeverityLevel: 3});
	const out = await session.run({[session.inputNames[0]]: new ort.Tensor('float32', all, [samples.length, ...samples[0].shape])});
	const got = out[session.outputNames[0]].data, want = lines.flatMap((l) => at.map((i) => Number(l[i])));
	if (!at.length || lines.length < 24 || got.length !== want.length)
		throw new Error(`${lines.length} lines of ${at.length} logits, and ${got.length} numbers of ONNX Runtime`);
	const most = Math.max(...want.map(Math.abs)), off = Math.max(...want.map((w, i) => Math.abs(w - got[i]))) / most;
	console.log(`differs by ${off.toExponential(1)} of ${most.toFixed(3)}`);
	process.exit(off <= 1e-5 ? 0 : 1);
}

if (what === 'make') makePictures(first, ...more.map(Number));
else if (what === 'rows') makeRows(first, ...more.map(Number));
else compare(first, ...more).catch((e) => { console.error(String(e)); process.exit(2); });
