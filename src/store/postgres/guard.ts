import { TidemarkError } from '../../errors.ts'
import type { World } from '../../util/world.ts'
import type { ScopeRules } from '../store.ts'
import { Deadline } from './deadline.ts'
import type { PgClientLike, PgQueryConfig, PgResult } from './driver.ts'
import { Findings } from './findings.ts'
import { leading } from './known-texts.ts'
import { checkParameters } from './parameters.ts'
import { sqlState, surroundingsError } from './pg-errors.ts'
import { answer, quoted, type Savepoint } from './savepoint.ts'
import type { Session } from './session.ts'
import { Shield } from './shield.ts'
import { type Nested, nestedStatement, refusedWords } from './statements.ts'

/** A statement that may be sent, and the control of a transaction that it is, if any. */
interface Read {
  readonly config: PgQueryConfig
  readonly nested: Nested | undefined
}

/** A lock that was not free (NOWAIT), a statement that was too slow: the transaction goes on once a savepoint is undone. */
const FORGIVABLE: ReadonlySet<string> = new Set(['55P03', '57014'])

/** How long a statement of the guard's own may take: it waits for no lock. */
const CONTROL_MS = 10_000

const quietly = () => {}

/**
 * Watches one callback of user code. What goes wrong is remembered as well as thrown, since user code may catch it and go
 * on: the finding is thrown again when the scope closes.
 */
export class Guard {
  readonly #session: Session
  readonly #rules: ScopeRules
  readonly #findings: Findings
  readonly #shield: Shield
  readonly #clock: Deadline
  #closed = false
  /** Statements and savepoints of the user that have not been answered. */
  #running = 0
  /** Failed statements not yet forgiven by a savepoint. */
  readonly #failed: unknown[] = []
  /** What no savepoint can forgive: the transaction is gone, the connection is lost, the time is up. */
  #fatal: TidemarkError | undefined
  readonly #savepoints: Savepoint[] = []
  #named = 0
  /** Tidemark writes in the middle of the callback: the user's statements wait. */
  #owning: Promise<unknown> | undefined

  constructor(session: Session, world: World, rules: ScopeRules) {
    this.#session = session
    this.#rules = rules
    this.#findings = new Findings(rules.values)
    this.#shield = new Shield(session, rules.mayWrite)
    this.#clock = new Deadline(world, session.alarm, rules.deadline, () => this.#timeOut())
  }

  get raw(): PgClientLike {
    this.alive()
    if (this.#fatal) throw this.#fatal
    this.#session.taint()
    this.#shield.raise().catch((error: unknown) => this.#noticed(error))
    return this.#session.client
  }

  alive(): void {
    if (this.#closed) throw this.#findings.dead()
  }

  inTransaction(): boolean {
    return !this.#closed && this.#session.status !== 'I'
  }

  /** One statement of the user. */
  query(statement: () => PgQueryConfig): Promise<PgResult> {
    return this.#statement(statement, false)
  }

  /** One statement of a part used alone (`dedup.once(db, …)`) on this handle: its savepoints have names of Tidemark's. */
  joined(config: PgQueryConfig): Promise<PgResult> {
    return this.#statement(() => config, true)
  }

  savepoint<T>(fn: () => T): Promise<Awaited<T>> {
    return this.#counted(async (): Promise<Awaited<T>> => {
      this.#before()
      const savepoint = await this.#open(`tidemark_user_${++this.#named}`, 'function')
      let result: Awaited<T>
      try {
        result = await fn()
      } catch (error) {
        await this.#session.quiet()
        await this.#undo(savepoint, true)
        throw this.#fatal ?? error
      }
      await this.#keep(savepoint)
      return result
    })
  }

  /** Runs writes of Tidemark's own: outside the shield where that forbids writing. */
  own<T>(work: () => T): unknown {
    if (this.#rules.mayWrite) return work()
    const owning = this.#own(work)
    this.#owning = owning.then(quietly, quietly)
    return owning
  }

  /** @throws what was noticed and not forgiven */
  close(outcome: 'returned' | 'threw'): Promise<void> | undefined {
    if (this.#closed) return
    this.#closed = true
    const forgotten = this.#running
    if (!this.#isClear()) return this.#closeAfter(outcome, forgotten)
    this.#clock.stop()
    if (outcome === 'returned') this.#throwNoticed(forgotten)
    return undefined
  }

  async #closeAfter(outcome: 'returned' | 'threw', forgotten: number): Promise<void> {
    await this.#clock.orPassed(this.#session.quiet())
    this.#clock.stop()
    if (this.#fatal) throw this.#fatal
    if (this.#session.status === 'I') throw this.#findings.ended(this.#shield.used)
    if (outcome === 'returned') this.#throwNoticed(forgotten)
    if (this.#session.status === 'T') await this.#inTurn(() => this.#lower())
  }

  #throwNoticed(forgotten: number): void {
    const [first] = this.#failed
    if (forgotten > 0) throw this.#findings.forgotten(forgotten, first)
    if (TidemarkError.is(first)) throw first
    if (first !== undefined || this.#session.status === 'E') throw this.#findings.swallowed(first)
    if (this.#savepoints.some(({ kind }) => kind === 'begin')) throw this.#findings.refused('BEGIN without its end')
  }

  // ---------------------------------------------------------------------------------------------- statements

  /** @param own a part used alone: it controls its own savepoints, and sends nothing that would be refused */
  #statement(statement: () => PgQueryConfig, own: boolean): Promise<PgResult> {
    let read: Read
    try {
      this.#before()
      read = this.#read(statement, own)
    } catch (error) {
      return looked(Promise.reject(error))
    }
    const { config, nested } = read
    if (nested) return this.#counted(() => this.#nested(nested, own))
    return this.#isClear() ? this.#straight(config) : this.#counted(() => this.#send(config))
  }

  /** Whether nothing runs, waits, has broken, or stands between the user and the transaction. */
  #isClear(): boolean {
    return (
      this.#session.waiting === 0 &&
      this.#session.status === 'T' &&
      !this.#owning &&
      !this.#fatal &&
      this.#shield.isDown
    )
  }

  /**
   * What `#send` does, where nothing is in its way: the steps that are saved here are saved at every event. Failures are
   * remembered in the turn in which they are answered, as there.
   */
  #straight(config: PgQueryConfig): Promise<PgResult> {
    this.#running++
    const answered = (result: PgResult) => {
      this.#running--
      if (this.#session.status !== 'I') return result
      throw this.#noticed(this.#findings.ended(false))
    }
    const failed = (error: unknown) => {
      this.#running--
      throw this.#noticed(error)
    }
    return looked(this.#clock.orPassed(this.#session.run(config).then(answered, failed)))
  }

  /** Counts until it is answered. A rejection that nobody looks at must not end the process: it is remembered here. */
  #counted<T>(work: () => Promise<T>): Promise<T> {
    this.#running++
    const answer = work().finally(() => {
      this.#running--
    })
    return looked(answer)
  }

  #before(): void {
    this.alive()
    if (this.#fatal) throw this.#fatal
    if (this.#clock.passed) throw this.#timeOut()
  }

  /** Looks at a text before it is sent. @throws what is refused; it stays noticed */
  #read(statement: () => PgQueryConfig, own: boolean): Read {
    try {
      const config = statement()
      checkParameters(config.text, config.values)
      const statements = leading(config.text)
      const nested = nestedStatement(statements)
      const refused = nested || own ? undefined : refusedWords(statements)
      if (refused !== undefined) throw this.#findings.refused(refused)
      return { config, nested }
    } catch (error) {
      this.#failed.push(error)
      throw error
    }
  }

  async #send(config: PgQueryConfig): Promise<PgResult> {
    while (this.#owning) await this.#waitForOwn(this.#owning)
    return this.#inTurn(async () => {
      if (this.#fatal) throw this.#fatal
      this.#checkOpen()
      await this.#shield.enter()
      const result = await this.#session.send(config)
      this.#checkOpen()
      return result
    })
  }

  async #waitForOwn(owning: Promise<unknown>): Promise<void> {
    await owning
    if (this.#owning === owning) this.#owning = undefined
  }

  /** Failures are remembered before the answer is given, so that whoever waits for the session to be quiet sees them. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const answer = this.#session.inTurn(async () => {
      try {
        return await work()
      } catch (error) {
        throw this.#noticed(error)
      }
    })
    return this.#clock.orPassed(answer)
  }

  #noticed(error: unknown): unknown {
    if (this.#fatal) return this.#fatal
    if (TidemarkError.is(error)) {
      this.#fatal = error
      return error
    }
    const state = sqlState(error)
    const untracked = !this.#rules.mayWrite && state === '25006' ? this.#findings.untracked(error) : undefined
    const surroundings = untracked ?? this.#findings.idle(error) ?? surroundingsError(error)
    if (surroundings && !untracked && !FORGIVABLE.has(state ?? '')) {
      this.#fatal = surroundings
      return surroundings
    }
    this.#failed.push(surroundings ?? error)
    return surroundings ?? error
  }

  #checkOpen(): void {
    if (this.#session.status === 'I') throw this.#findings.ended(this.#shield.used)
  }

  /** The statement may be running still: the connection is thrown away with it. */
  #timeOut(): TidemarkError {
    this.#fatal ??= this.#findings.timeout()
    if (this.#session.waiting > 0) this.#session.breakOff()
    return this.#fatal
  }

  async #own<T>(work: () => T): Promise<Awaited<T>> {
    if (this.#session.status === 'T') await this.#inTurn(() => this.#lower())
    try {
      return await work()
    } finally {
      if (this.#shield.used && this.#session.status === 'T') await this.#inTurn(() => this.#shield.enter())
    }
  }

  // ---------------------------------------------------------------------------------------------- savepoints

  async #nested(nested: Nested, own: boolean): Promise<PgResult> {
    if (nested.verb === 'begin') {
      await this.#open(`tidemark_nested_${++this.#named}`, 'begin')
      return answer('BEGIN')
    }
    if (nested.verb === 'savepoint') {
      if (!own && nested.name.startsWith('tidemark_')) throw this.#refuse(`SAVEPOINT ${nested.name}`)
      await this.#open(nested.name, 'named')
      return answer('SAVEPOINT')
    }
    const savepoint = this.#find(nested)
    if (nested.verb === 'release' || nested.verb === 'commit') return this.#end(savepoint, nested.verb)
    await this.#undo(savepoint, nested.verb === 'rollback')
    return answer('ROLLBACK')
  }

  /** COMMIT of an aborted transaction rolls back and says so in its answer; what failed in it stays noticed. */
  async #end(savepoint: Savepoint, verb: 'release' | 'commit'): Promise<PgResult> {
    if (verb === 'commit' && this.#failed.length > savepoint.failed) {
      const failed = this.#failed.slice(savepoint.failed)
      await this.#undo(savepoint, true)
      this.#failed.push(...failed)
      return answer('ROLLBACK')
    }
    await this.#release(savepoint)
    return answer(verb === 'commit' ? 'COMMIT' : 'RELEASE')
  }

  /** The savepoint that a statement means; a COMMIT or ROLLBACK without its BEGIN means Tidemark's transaction. */
  #find(nested: Nested): Savepoint {
    const found = this.#savepoints.findLast((one) =>
      'name' in nested ? one.kind === 'named' && one.name === nested.name : one.kind === 'begin',
    )
    if (found) return found
    throw this.#refuse(nested.verb.toUpperCase())
  }

  #refuse(words: string): TidemarkError {
    const error = this.#findings.refused(words)
    this.#failed.push(error)
    return error
  }

  async #open(name: string, kind: Savepoint['kind']): Promise<Savepoint> {
    const savepoint = { name, kind, failed: this.#failed.length, running: this.#running }
    await this.#control(`SAVEPOINT ${quoted(name)}`)
    this.#savepoints.push(savepoint)
    return savepoint
  }

  async #keep(savepoint: Savepoint): Promise<void> {
    const forgotten = this.#running - savepoint.running
    await this.#clock.orPassed(this.#session.quiet())
    if (forgotten > 0) this.#fatal ??= this.#findings.forgotten(forgotten, this.#failed[savepoint.failed])
    if (this.#fatal) throw this.#fatal
    const swallowed = this.#failed.slice(savepoint.failed)
    if (swallowed.length === 0) return this.#release(savepoint)
    await this.#undo(savepoint, true)
    this.#failed.push(...swallowed)
    throw this.#findings.swallowed(swallowed[0])
  }

  async #release(savepoint: Savepoint): Promise<void> {
    this.#fromTop(savepoint)
    await this.#control(`RELEASE ${quoted(savepoint.name)}`)
  }

  /** Takes back what was written since a savepoint, and forgives what failed since. */
  async #undo(savepoint: Savepoint, ends: boolean): Promise<void> {
    if (this.#fatal) return
    this.#fromTop(savepoint)
    await this.#control(`ROLLBACK TO ${quoted(savepoint.name)}`)
    this.#failed.length = savepoint.failed
    if (ends) await this.#control(`RELEASE ${quoted(savepoint.name)}`)
    else this.#savepoints.push(savepoint)
  }

  /** Savepoints end in the order in which they were opened; two that run side by side would end each other. */
  #fromTop(savepoint: Savepoint): void {
    const at = this.#savepoints.indexOf(savepoint)
    const above = this.#savepoints.slice(at + 1)
    if (at === -1 || above.some(({ kind }) => kind === 'function')) {
      this.#fatal ??= this.#findings.sideBySide()
      throw this.#fatal
    }
    this.#savepoints.length = at
  }

  async #control(text: string): Promise<void> {
    await this.#inTurn(async () => {
      this.#checkOpen()
      await this.#lower()
      try {
        await this.#session.send({ text, query_timeout: CONTROL_MS })
      } catch (error) {
        // A savepoint that is gone was ended through `raw`; in an aborted transaction, SAVEPOINT fails like any statement.
        throw sqlState(error) === '3B001' ? this.#findings.ended(true, error) : error
      }
    })
  }

  async #lower(): Promise<void> {
    try {
      await this.#shield.lower()
    } catch (error) {
      throw surroundingsError(error) ?? this.#findings.ended(true, error)
    }
  }
}

/** A rejection that nobody looks at must not end the process: the guard remembers it. */
function looked<T>(answer: Promise<T>): Promise<T> {
  answer.catch(quietly)
  return answer
}
