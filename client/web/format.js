// Numbers as people read them. What is unknown is '-'.

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
const TIMES = [[1e9 * 3600, 'h'], [1e9 * 60, 'min'], [1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

function three(value) {
  const size = Math.abs(value);
  return size >= 100 || value === Math.round(value) ? Math.round(value).toLocaleString('en')
    : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function bytes(value) {
  if (typeof value !== 'number')
    return '-';
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${three(value)} ${BINARY[unit]}`;
}

export function duration(ns) {
  if (typeof ns !== 'number')
    return '-';
  const [size, unit] = TIMES.find(([least]) => Math.abs(ns) >= least) ?? TIMES.at(-1);
  return `${three(ns / size)} ${unit}`;
}

export function count(value) {
  return typeof value === 'number' ? value.toLocaleString('en') : '-';
}

export function share(ppm) {
  return typeof ppm === 'number' ? `${three(ppm / 1e4)} %` : '-';
}

export function text(value) {
  return value === null || value === undefined || value === '' ? '-' : String(value);
}

// The time of the day of a moment of the daemon's clock, with so many digits behind the second.
export function timeOfDay(ns, clock, digits = 3) {
  const at = ns + (clock?.wall_offset_ns ?? 0), part = Math.floor(at % 1e9 / 10 ** (9 - digits));
  return `${new Date(at / 1e6).toTimeString().slice(0, 8)}.${String(part).padStart(digits, '0')}`;
}
