import { afterEach, expect, test } from 'vitest'
import { connectAdmin } from '../../src/index.ts'
import { describePostgres } from '../support/postgres.ts'
import { type Backup, takeBackup } from './backup.ts'
import type { Member } from './member.ts'
import { Stage, WATCHERS } from './stage.ts'

const by = { actor: 'test', reason: 'the database was put back' }

let stage: Stage | undefined
let backup: Backup | undefined
afterEach(async () => {
  await backup?.drop()
  await stage?.close()
  stage = undefined
  backup = undefined
})

async function open(label: string): Promise<Stage> {
  stage = await Stage.open('postgres', label)
  stage.live.live()
  return stage
}

async function rowsOf(on: Stage) {
  const rows = await on.until('a row for each watcher', async () => {
    const found = await on.rows()
    return found.length === WATCHERS.length && found
  })
  return rows.map((row) => ({
    name: String(row['name']),
    cursor: Number(row['cursor_block'] ?? -1),
    state: String(row['state']),
    reason: String(row['reason']),
  }))
}

/** Waits until every watcher has applied blocks that are new by now. */
async function goOn(on: Stage, blocks = 3): Promise<void> {
  const before = new Map((await rowsOf(on)).map(({ name, cursor }) => [name, cursor]))
  await on.until('all watchers to go on', async () =>
    (await rowsOf(on)).every(({ name, cursor }) => cursor >= (before.get(name) ?? 0) + blocks),
  )
}

async function allTaken(on: Stage, member: Member): Promise<void> {
  await on.until(`all watchers at ${member.who}`, async () => {
    const duties = await on.duties()
    return WATCHERS.every((watcher) => duties.get(watcher)?.who === member.who)
  })
}

/** Nothing of the older state is worked on: each watcher halts, and says why. */
async function allHalted(on: Stage): Promise<void> {
  await on.until('all watchers to halt', async () => (await rowsOf(on)).every(({ state }) => state === 'halted'))
  for (const { reason } of await rowsOf(on)) expect(reason).toContain('STORE_WENT_BACK')
}

async function rightInTheEnd(on: Stage): Promise<void> {
  await goOn(on)
  await on.settled()
  expect(await on.differences()).toEqual([])
}

describePostgres('a PostgreSQL database that is put back under running processes', () => {
  test('the holder halts, and goes on after `restored` with the right end', { timeout: 90_000 }, async () => {
    const on = await open('holder')
    const holder = await on.start({ leaseMs: 10_000 })
    await goOn(on)
    backup = await takeBackup(on.database)
    const then = await rowsOf(on)
    await goOn(on, 10)
    on.live.rest()
    await backup.putBack()
    await allHalted(on)
    expect((await rowsOf(on)).map(({ cursor }) => cursor)).toEqual(then.map(({ cursor }) => cursor))
    expect(new Set(holder.of('halted').map(({ watcher }) => watcher))).toEqual(new Set(WATCHERS))
    on.live.live()
    await connectAdmin(on.database.store()).restored(by)
    await rightInTheEnd(on)
    expect(holder.of('halted')).toHaveLength(WATCHERS.length)
  })

  test('one that took over since the backup halts too: its token is not in the older rows', {
    timeout: 90_000,
  }, async () => {
    const on = await open('another holder')
    const first = await on.start()
    await goOn(on)
    backup = await takeBackup(on.database)
    await goOn(on)
    const second = await on.start()
    await first.stop()
    await allTaken(on, second)
    await goOn(on, 10)
    await backup.putBack()
    await allHalted(on)
    await connectAdmin(on.database.store()).restored(by)
    await rightInTheEnd(on)
    expect(second.of('halted').length).toBeLessThanOrEqual(WATCHERS.length)
  })

  test('after `restored` nobody halts for it again, neither who stood by', { timeout: 90_000 }, async () => {
    const on = await open('standby')
    const first = await on.start()
    await goOn(on)
    backup = await takeBackup(on.database)
    await goOn(on, 20)
    const second = await on.start()
    // It has seen the newer state on its time on duty, and is away when that is taken back.
    first.freeze()
    await allTaken(on, second)
    await backup.putBack()
    on.live.rest()
    await allHalted(on)
    await connectAdmin(on.database.store()).restored(by)
    await on.until('all to run', async () => (await rowsOf(on)).every(({ state }) => state === 'running'))
    await allTaken(on, second)
    first.thaw()
    const halts = first.of('halted').length + second.of('halted').length
    await second.stop()
    await allTaken(on, first)
    on.live.live()
    await rightInTheEnd(on)
    expect(first.of('halted').length + second.of('halted').length).toBe(halts)
  })

  test('control: a database that was not put back, with all sessions ended, halts nobody', {
    timeout: 90_000,
  }, async () => {
    const on = await open('control')
    const holder = await on.start()
    await goOn(on)
    backup = await takeBackup(on.database)
    await rightInTheEnd(on)
    expect(holder.of('halted')).toEqual([])
  })
})
