import { type Config, overrideConfig, scalarSettings, trackReads } from '../../config.ts'
import { LineLogger } from '../logger.ts'
import { painter } from '../terminal.ts'
import type { By, Logger, Tidemark } from '../types.ts'
import { type Call, textFlag } from './command.ts'
import { loadConfig } from './load-config.ts'

/** File, environment and flags, checked; reads of it are tracked from here on. */
export async function openConfig({ io, flags }: Call): Promise<Config> {
  const file = await loadConfig(io.cwd, textFlag(flags, 'config'))
  const overrides = Object.fromEntries(scalarSettings.map(({ key, flag }) => [key, textFlag(flags, flag)] as const))
  const given = Object.fromEntries(
    Object.entries(overrides).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )
  return trackReads(overrideConfig(file, { env: io.env, flags: given })).config
}

/** Warnings of a short command go to stderr, so that stdout holds the answer alone. */
function quietLogger({ io }: Call, config: Config): Logger {
  const format = io.stderr.isTTY ? 'human' : 'json'
  const level = config.logLevel === 'info' ? 'warn' : config.logLevel
  return new LineLogger({
    level,
    format,
    world: io.world,
    write: (line) => io.stderr.write(`${line}\n`),
    paint: painter(io.stderr, io.env),
  })
}

/** Opens the project for one short command that runs no watcher, and closes it again. */
export async function withTidemark<T>(
  call: Call,
  work: (tidemark: Tidemark, config: Config) => Promise<T>,
): Promise<T> {
  const config = await openConfig(call)
  const { createTidemark } = await import('../tidemark.ts')
  const tidemark = createTidemark(config, { logger: quietLogger(call, config), world: call.io.world })
  try {
    return await work(tidemark, config)
  } finally {
    await tidemark.stop()
  }
}

/** Who and why, for the audit row. */
export function byOf({ io, flags }: Call): By {
  return { actor: textFlag(flags, 'actor') ?? io.userName(), reason: textFlag(flags, 'reason') ?? 'not given' }
}
