/** Where text goes: a stream of the process, or a list in a test. */
export interface Output {
  write(text: string): void
  /** Whether a person looks at it. */
  readonly isTTY: boolean
  /** Width in characters; may change while running. */
  readonly columns: number
}

const STYLES = { red: 31, green: 32, yellow: 33, cyan: 36, dim: 2, bold: 1 } as const
export type Style = keyof typeof STYLES
export type Paint = (style: Style, text: string) => string

/** Colours only for a person, and not for one who set NO_COLOR (no-color.org: any value but the empty one). */
export function painter(output: Output, env: Readonly<Record<string, string | undefined>>): Paint {
  const colored = output.isTTY && !env.NO_COLOR && env.TERM !== 'dumb'
  return (style, text) => (colored ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text)
}

/** `1,234,567`. Not by locale, so that output is the same everywhere. */
export function thousands(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',')
}

/** `45s`, `3m 20s`, `2h 5m`, `4d 3h`: the two largest units. */
export function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m ${seconds % 60}s`
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h ${Math.floor((seconds % 3_600) / 60)}m`
  return `${Math.floor(seconds / 86_400)}d ${Math.floor((seconds % 86_400) / 3_600)}h`
}
