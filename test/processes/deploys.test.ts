import { expect, test } from 'vitest'
import { connectAdmin } from '../../src/index.ts'
import type { Database } from './database.ts'
import type { Member } from './member.ts'
import { onBoth } from './on-both.ts'
import { type Stage, started, WATCHERS } from './stage.ts'
import { readDuties, readHistory } from './writers.ts'

const LEDGER = 'ledger/node'
const by = { actor: 'test', reason: 'a test of many processes' }

/** The row of a watcher. */
async function rowOf(stage: Stage, watcher = LEDGER) {
  const row = (await stage.rows()).find(({ name }) => name === watcher)
  return {
    cursor: Number(row?.['cursor_block'] ?? -1),
    state: String(row?.['state']),
    reason: String(row?.['reason']),
    revision: Number(row?.['revision']),
  }
}

/** Waits until a watcher has applied blocks that are new by now. */
async function goesOn(stage: Stage, watcher = LEDGER): Promise<void> {
  const { cursor } = await rowOf(stage, watcher)
  await stage.until(`${watcher} to go on`, async () => (await rowOf(stage, watcher)).cursor > cursor + 2)
}

/** The codes with which a start was refused. */
async function refusalOf(member: Member): Promise<unknown[]> {
  await member.until('its refusal', () => member.of('not-started').length > 0)
  return member.of('not-started').map(({ code }) => code)
}

async function builds(database: Database): Promise<string[]> {
  const table = database.kind === 'postgres' ? 'tidemark.commits' : 'tidemark_commits'
  return (await database.query(`SELECT DISTINCT build FROM ${table} ORDER BY build`)).map((row) => String(row['build']))
}

onBoth(
  'processes that come and go',
  (test, open) => {
    test('five that start at the same instant on an empty database make one schema and one row a watcher', async () => {
      const stage = await open('same instant', { remember: false })
      stage.live.live()
      const members = Array.from({ length: 5 }, () => stage.member({ waits: true }).start())
      for (const member of members) await member.until('its loading', () => member.of('ready').length > 0)
      for (const member of members) member.say('go')
      for (const member of members) await started(member)
      await goesOn(stage)
      await stage.settled()
      expect(await stage.differences()).toEqual([])
      expect((await stage.rows()).map(({ name }) => name)).toEqual([...WATCHERS].sort())
      expect(members.map((member) => [member.codes('failing'), member.of('halted')])).toEqual(
        members.map(() => [{}, []]),
      )
    })

    test('a deploy: the new build stands by, takes over within a second, and goes on where the old one was', async () => {
      const stage = await open('deploy')
      stage.live.live()
      const old = await stage.start({ config: { build: '1.0.0' } })
      await goesOn(stage)
      const next = await stage.start({ config: { build: '1.1.0' } })
      await goesOn(stage)
      expect(await builds(stage.database)).toEqual(['1.0.0'])
      const since = Date.now()
      await old.stop()
      for (const watcher of WATCHERS) {
        const first = (await stage.duties()).get(watcher)
        const duty = first?.who === next.who ? first : await stage.taken(watcher, first?.takenId ?? 0)
        expect(duty.takenAt - since).toBeLessThan(1_000)
      }
      await goesOn(stage)
      await stage.settled()
      expect(await stage.differences()).toEqual([])
      expect(await builds(stage.database)).toEqual(['1.0.0', '1.1.0'])
      expect(readDuties(await readHistory(stage.database)).intruders).toEqual([])
    })

    test('a changed filter is refused to the new process, and the old one goes on', async () => {
      const stage = await open('filter')
      stage.live.live()
      const old = await stage.start()
      await goesOn(stage)
      const other = stage.member({ startBlock: 2 }).start()
      expect(await refusalOf(other)).toEqual(['WATCHER_FILTER_CHANGED'])
      await goesOn(stage)
      expect(old.of('halted')).toEqual([])
      expect(old.codes('failing')).toEqual({})
      await stage.settled()
      expect(await stage.differences()).toEqual([])
    })

    test('a standby with the old filter says that it cannot take over, again and again', async () => {
      const stage = await open('standby')
      stage.live.live()
      const old = await stage.start()
      const standby = await stage.start()
      await goesOn(stage)
      const next = await stage.start({ startBlock: 2, config: { accept: 'from-here' } })
      // The one that has it, then the standby if it was quicker: until the new one has all of them.
      await old.stop()
      standby.freeze()
      for (const watcher of WATCHERS) {
        await stage.until('the takeover', async () => (await stage.duties()).get(watcher)?.who === next.who)
      }
      standby.thaw()
      expect(await refusalOf(stage.member().start())).toEqual(['WATCHER_FILTER_CHANGED'])
      const { cursor } = await rowOf(stage)
      await next.kill()
      await standby.until('its complaint', () => (standby.codes('failing')['WATCHER_FILTER_CHANGED'] ?? 0) >= 2)
      const after = (await rowOf(stage)).cursor
      expect(after).toBeGreaterThanOrEqual(cursor)
      await standby.until('one more', () => (standby.codes('failing')['WATCHER_FILTER_CHANGED'] ?? 0) >= 4)
      expect((await rowOf(stage)).cursor).toBe(after)
    })

    test('paused and resumed by a third process: nobody works in between, a successor neither', async () => {
      const stage = await open('pause')
      stage.live.live()
      const first = await stage.start()
      const second = await stage.start()
      await goesOn(stage)
      const admin = connectAdmin(stage.database.store())
      await admin.pause(LEDGER, by)
      const { cursor } = await rowOf(stage)
      await goesOn(stage, 'shown/node')
      await first.kill()
      await stage.until('a successor', async () => (await stage.duties()).get(LEDGER)?.who === second.who)
      await goesOn(stage, 'shown/node')
      expect(await rowOf(stage)).toMatchObject({ cursor, state: 'paused' })
      await admin.resume(LEDGER, by)
      await goesOn(stage)
      await stage.settled()
      expect(await stage.differences()).toEqual([])
      expect(readDuties(await readHistory(stage.database)).intruders).toEqual([])
    })

    test('`restored` fences every process, and all of them go on', async () => {
      const stage = await open('restored')
      stage.live.live()
      const members = [await stage.start(), await stage.start(), await stage.start()]
      await goesOn(stage)
      const line = await stage.lastLine()
      await connectAdmin(stage.database.store()).restored(by)
      for (const watcher of WATCHERS) await stage.taken(watcher, line)
      await goesOn(stage)
      await stage.settled()
      const history = await readHistory(stage.database)
      expect(readDuties(history).intruders).toEqual([])
      expect(history.filter(({ id, who, kind }) => id > line && kind === 'row' && who === 'test')).toHaveLength(3)
      expect(await stage.differences()).toEqual([])
      expect(members.flatMap((member) => member.of('halted'))).toEqual([])
    })

    test('a process of another environment is refused; one that names none is not', async () => {
      const stage = await open('environment')
      stage.live.live()
      await stage.start({ config: { environment: 'production' } })
      await goesOn(stage)
      const staging = stage.member({ config: { environment: 'staging' } }).start()
      expect(await refusalOf(staging)).toEqual(['ENVIRONMENT_MISMATCH'])
      await stage.start()
      await goesOn(stage)
    })
  },
  test,
)
