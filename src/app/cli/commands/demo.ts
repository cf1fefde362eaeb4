import { TidemarkError } from '../../../errors.ts'
import type { DemoOptions } from '../../demo/run.ts'
import { type Call, textFlag } from '../command.ts'

/** The longest chain that the demo makes. */
const MAX_BLOCKS = 100_000

function blocksOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const blocks = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (blocks >= 1 && blocks <= MAX_BLOCKS) return blocks
  throw new TidemarkError('FLAG_INVALID', 'The flag --blocks is not valid', {
    values: { expected: `an integer from 1 to ${MAX_BLOCKS}` },
  })
}

/** `tidemark demo`: exit code 0 when the databases are equal, 5 when not. */
export async function demo({ io, flags }: Call): Promise<number> {
  const options: DemoOptions = {
    seed: textFlag(flags, 'seed'),
    blocks: blocksOf(textFlag(flags, 'blocks')),
    json: flags.json === true,
    out: io.stdout,
  }
  const { runDemo } = await import('../../demo/run.ts')
  return runDemo(options)
}
