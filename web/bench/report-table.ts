/** Formats results as the other benchmarks do: each beside its baseline and target. */

export interface BenchRow {
  readonly what: string;
  readonly unit: string;
  readonly hostler: number;
  /** The baseline without the measured part, and its name. */
  readonly baseline?: readonly [name: string, value: number];
  /** The design target. */
  readonly target?: number;
}

const TABLE_HEADER = ['what', 'hostler', 'beside', 'ratio', 'target'];

export function formatTable(rows: readonly BenchRow[]): string {
  const lines = [TABLE_HEADER, ...rows.map(cells)];
  const widths = TABLE_HEADER.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function cells({ what, unit, hostler, baseline, target }: BenchRow): string[] {
  const number = (value: number) => `${value.toFixed(2)} ${unit}`;
  return [
    what,
    number(hostler),
    baseline ? `${number(baseline[1])} (${baseline[0]})` : '-',
    baseline && baseline[1] > 0 ? (hostler / baseline[1]).toFixed(2) : '-',
    target === undefined ? '-' : `≤ ${number(target)}`,
  ];
}

/** The given percentile of the values; 0 without values. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.min(Math.floor((sorted.length * percent) / 100), sorted.length - 1)] ?? 0;
}
