import type { Logger, TidemarkEvents } from './types.ts'

type Listener = (event: never) => void

/** Typed listeners. A listener that throws is logged and harms nobody. */
export class Emitter {
  private readonly listeners = new Map<keyof TidemarkEvents, Set<Listener>>()
  private readonly logger: Logger

  constructor(logger: Logger) {
    this.logger = logger
  }

  on<K extends keyof TidemarkEvents>(type: K, listener: (event: TidemarkEvents[K]) => void): () => void {
    const all = this.listeners.get(type) ?? new Set()
    this.listeners.set(type, all.add(listener as Listener))
    return () => all.delete(listener as Listener)
  }

  emit<K extends keyof TidemarkEvents>(type: K, event: TidemarkEvents[K]): void {
    this.log(type, event)
    for (const listener of this.listeners.get(type) ?? []) {
      try {
        listener(event as never)
      } catch (error) {
        this.logger.log('error', 'a listener threw', { type, error })
      }
    }
  }

  private log<K extends keyof TidemarkEvents>(type: K, event: TidemarkEvents[K]): void {
    const levels = {
      applied: 'debug',
      undone: 'warn',
      settled: 'debug',
      halted: 'error',
      failing: 'warn',
      recovered: 'info',
    } as const
    this.logger.log(levels[type], SENTENCES[type], event as unknown as Record<string, unknown>)
  }
}

const SENTENCES: Readonly<Record<keyof TidemarkEvents, string>> = {
  applied: 'blocks applied',
  undone: 'blocks undone after a reorg',
  settled: 'blocks settled',
  halted: 'watcher halted',
  failing: 'watcher waits and tries again',
  recovered: 'watcher recovered',
}
