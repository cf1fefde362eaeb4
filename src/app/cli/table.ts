/** Rows as text in columns. The first row is the heading; numbers stand to the right. */
export function table(heading: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = heading.map((title, i) => Math.max(title.length, ...rows.map((row) => (row[i] ?? '').length)))
  const isNumber = heading.map((_, i) => rows.every((row) => /^(-|[\d,.]+)$/.test(row[i] ?? '-')))
  const cell = (text: string, i: number) => (isNumber[i] ? text.padStart(widths[i] ?? 0) : text.padEnd(widths[i] ?? 0))
  return [heading, ...rows].map((row) => row.map(cell).join('  ').trimEnd())
}
