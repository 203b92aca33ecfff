// Processes the same image with sharp: same orientation, same resize filter, same output format.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [home, file, form, edge, rounds] = process.argv.slice(2);
const sharp = createRequire(`${home}/package.json`)('sharp');
const status = (field) => Number(readFileSync('/proc/self/status', 'utf8').match(new RegExp(`${field}:\\s+(\\d+)`))[1]);
const bytes = readFileSync(file);
sharp.cache(false);
const before = status('VmRSS');
const times = [];
let made;
for (let round = 0; round < Number(rounds); round++) {
  const start = process.hrtime.bigint();
  const size = { width: Number(edge), height: Number(edge), fit: 'inside', kernel: 'lanczos3' };
  const shrunk = sharp(bytes).rotate().resize(size);
  made = await (form === 'png' ? shrunk.png() : shrunk.jpeg({ quality: 85 })).toBuffer();
  times.push(Number(process.hrtime.bigint() - start) / 1e6);
}
times.sort((one, other) => one - other);
console.log(`${times[times.length >> 1]} ${(status('VmHWM') - before) / 1024} ${made.length}`);
