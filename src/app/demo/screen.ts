import { duration, type Output, type Paint, painter } from '../terminal.ts'

/** What the demo counts while it runs. */
export interface Counts {
  head: number
  cursor: number
  settled: number
  reorgs: number
  kills: number
  undone: number
}

const WIDTH = 24

function bar(done: number, total: number): string {
  const filled = Math.round((WIDTH * Math.min(done, total)) / Math.max(1, total))
  return `${'█'.repeat(filled)}${'░'.repeat(WIDTH - filled)}`
}

/** What a person looks at meanwhile: one line that is rewritten, and a line for each thing worth telling. */
export class Screen {
  readonly paint: Paint
  private readonly output: Output
  private readonly total: number

  constructor(output: Output, total: number, env: Readonly<Record<string, string | undefined>>) {
    this.output = output
    this.total = total
    this.paint = painter(output, env)
  }

  /** A line that stays. */
  tell(text: string): void {
    this.output.write(this.output.isTTY ? `\r\u001b[2K${text}\n` : `${text}\n`)
  }

  /** The moving line; nothing on anything but a terminal. */
  draw(counts: Counts): void {
    if (!this.output.isTTY) return
    const line = `${bar(counts.cursor, this.total)} head ${counts.head}  applied ${counts.cursor}  settled ${counts.settled}  reorgs ${counts.reorgs}  kills ${counts.kills}`
    this.output.write(`\r\u001b[2K${line.slice(0, Math.max(20, this.output.columns - 1))}`)
  }

  clear(): void {
    if (this.output.isTTY) this.output.write('\r\u001b[2K')
  }

  /** Two columns, numbers to the right. */
  table(rows: readonly (readonly [string, string | number])[]): void {
    const left = Math.max(...rows.map(([label]) => label.length))
    const right = Math.max(...rows.map(([, value]) => String(value).length))
    for (const [label, value] of rows) this.tell(`  ${label.padEnd(left)}  ${String(value).padStart(right)}`)
  }

  took(ms: number): string {
    return duration(ms)
  }
}
