import { commit } from './commit.ts'
import { decode } from './decode.ts'
import { identity } from './identity.ts'
import type { Bench, Figure, Size } from './measure.ts'
import { memory } from './memory.ts'
import { protocol } from './protocol.ts'
import { window } from './window.ts'

/**
 * `npm run bench [-- --only NAME] [--json] [--check] [--size tiny]`: all benches, or one. `--json` prints one line a
 * figure, `--check` ends with exit code 1 when a figure is above its limit.
 */

export const benches: readonly Bench[] = [memory, commit, protocol, decode, identity, window]

export interface Options {
  readonly only: string | null
  readonly json: boolean
  readonly check: boolean
  readonly size: Size
}

/** @throws {Error} for an unknown flag, bench or size */
export function readOptions(args: readonly string[]): Options {
  const rest = [...args]
  const flag = (name: string): boolean => rest.includes(name) && rest.splice(rest.indexOf(name), 1).length === 1
  const setting = (name: string, among: readonly string[]): string | null => {
    const at = rest.indexOf(name)
    if (at < 0) return null
    const [, value = ''] = rest.splice(at, 2)
    if (among.includes(value)) return value
    throw new Error(`${name} takes one of: ${among.join(', ')}`)
  }
  const only = setting(
    '--only',
    benches.map((bench) => bench.name),
  )
  const size = (setting('--size', ['full', 'tiny']) ?? 'full') as Size
  const options = { only, size, json: flag('--json'), check: flag('--check') }
  if (rest.length > 0) throw new Error(`unknown: ${rest.join(' ')}`)
  return options
}

function line({ name, value, unit, against, ratio, atMost }: Figure): string {
  const compared = ratio === null ? '' : `${ratio} × ${against}`
  const limit = atMost === undefined ? '' : `${value > atMost ? 'ABOVE' : 'within'} ${Math.round(atMost)}`
  const number = value.toLocaleString('en', { maximumFractionDigits: 2 })
  return `  ${name.padEnd(58)}${number.padStart(12)} ${unit.padEnd(10)}${[compared, limit].filter(Boolean).join(', ')}`
}

/** Runs the benches and prints each figure as it comes. @returns the figures that are above their limits */
export async function runBenches(options: Options, print: (line: string) => void): Promise<Figure[]> {
  const above: Figure[] = []
  for (const bench of benches) {
    if (options.only !== null && options.only !== bench.name) continue
    if (!options.json) print(`\n${bench.name}: ${bench.says}`)
    for await (const figure of bench.run(options.size)) {
      print(options.json ? JSON.stringify(figure) : line(figure))
      if (figure.atMost !== undefined && figure.value > figure.atMost) above.push(figure)
    }
  }
  return above
}
