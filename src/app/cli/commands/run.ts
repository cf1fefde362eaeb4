import type { Config } from '../../../config.ts'
import { TidemarkError } from '../../../errors.ts'
import { LineLogger } from '../../logger.ts'
import { painter } from '../../terminal.ts'
import type { Logger, Tidemark } from '../../types.ts'
import type { Call } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import type { Io } from '../io.ts'
import { LiveLine } from '../live-line.ts'
import { openConfig } from '../open.ts'
import { type Goal, type Progress, ProgressMeter, progressLine, progressValues } from '../progress.ts'
import { StopSignals } from '../stop-signals.ts'

/** Milliseconds between two looks at the status. */
const LOOK_MS = 1_000
/** Milliseconds between two progress lines in a log. */
const LOG_MS = 10_000

/** Each watcher's goal, by its full name. */
function goalsOf(config: Config): ReadonlyMap<string, Goal> {
  const goals = new Map<string, Goal>()
  for (const [name, watcher] of Object.entries(config.watchers)) {
    for (const [chain, binding] of Object.entries(watcher.definition.on)) {
      const endBlock = binding.endBlock === undefined ? null : Number(binding.endBlock)
      goals.set(`${name}/${chain}`, { at: binding.at ?? 'finalized', endBlock })
    }
  }
  return goals
}

/** What a person, or a log, is told while watchers run. */
class Display {
  readonly #io: Io
  readonly #live: LiveLine
  readonly #logger: Logger
  readonly #meter: ProgressMeter
  #loggedAt = Number.NEGATIVE_INFINITY
  #phase: Progress['phase'] = 'starting'

  constructor(io: Io, live: LiveLine, logger: Logger, goals: ReadonlyMap<string, Goal>) {
    this.#io = io
    this.#live = live
    this.#logger = logger
    this.#meter = new ProgressMeter(goals)
  }

  /** Looks once. Answers whether every watcher has ended. A look that fails is no reason to stop the watchers. */
  async look(tidemark: Tidemark): Promise<boolean> {
    try {
      const progress = this.#meter.look(await tidemark.status(), this.#io.world.monotonic())
      this.#live.show(progressLine(progress))
      this.#log(progress)
      return progress.phase === 'ended'
    } catch (error) {
      this.#logger.log('debug', 'the status could not be read', { error })
      return false
    }
  }

  /** Changes of phase at once, backfill now and then, live not at all: a quiet log is read. */
  #log(progress: Progress): void {
    const now = this.#io.world.monotonic()
    const changed = progress.phase !== this.#phase
    this.#phase = progress.phase
    const due = progress.phase === 'backfill' && !this.#io.stdout.isTTY && now - this.#loggedAt >= LOG_MS
    if (!changed && !due) return
    this.#loggedAt = now
    this.#logger.log('info', progress.phase, progressValues(progress))
  }
}

/** Runs until every watcher has ended or the first signal came, then stops cleanly. */
async function follow(
  tidemark: Tidemark,
  display: Display,
  { io, stop }: { io: Io; stop: AbortSignal },
): Promise<void> {
  try {
    await tidemark.start()
    while (!stop.aborted && !(await display.look(tidemark))) await io.world.sleep(LOOK_MS, stop)
  } finally {
    await tidemark.stop()
  }
}

/** `tidemark run`. Exit codes: `exit-codes.ts`. */
export async function run(call: Call): Promise<number> {
  const { io } = call
  const config = await openConfig(call)
  const goals = goalsOf(config)
  if (goals.size === 0)
    throw new TidemarkError('CONFIG_INVALID', 'There is no watcher to run', { values: { path: 'watchers' } })
  const live = new LiveLine(io.stdout, painter(io.stdout, io.env))
  const logger = runLogger(io, config, live)
  const { createTidemark } = await import('../../tidemark.ts')
  const tidemark = createTidemark(config, { logger, world: io.world })
  const signals = new StopSignals(io)
  signals.stop.addEventListener('abort', () =>
    logger.log('info', 'stopping after the open step', { signal: signals.first }),
  )
  try {
    const followed = follow(tidemark, new Display(io, live, logger, goals), { io, stop: signals.stop })
    return await Promise.race([followed.then(() => EXIT.ok), signals.forced])
  } finally {
    signals.end()
    live.end()
  }
}

function runLogger(io: Io, config: Config, live: LiveLine): Logger {
  return new LineLogger({
    level: config.logLevel,
    format: io.stdout.isTTY ? 'human' : 'json',
    world: io.world,
    write: (line) => live.print(line),
    paint: painter(io.stdout, io.env),
  })
}
