import type { PlannedAction } from './plan.ts'

function logsOf(blocks: readonly (readonly (readonly unknown[])[])[]): number {
  return blocks.flat(2).length
}

function what(action: PlannedAction): string {
  switch (action.kind) {
    case 'mine':
      return `mine ${action.blocks.length} blocks with ${logsOf(action.blocks)} logs`
    case 'reorg':
      return `reorg ${action.depth} deep, ${action.reinclude}, ${action.extraBlocks} blocks longer, ${action.fresh.flat().length} new logs`
    case 'winBack':
      return 'the abandoned branch wins back'
    case 'finality':
      return `finality: ${action.to}${action.to === 'stepBack' ? ` by ${action.by}` : ''}`
    case 'faults':
      return `faults of provider ${action.provider} ${action.on ? 'on' : 'off'}`
    case 'wait':
      return `${action.ms} ms pass`
    case 'wallJump':
      return `the wall clock jumps by ${action.ms} ms`
    case 'run':
      return `process ${action.process} runs for ${action.budgetMs} ms`
    case 'overlap':
      return `process ${action.first} is held up at request ${action.atRequest}${action.steals ? ' and loses its lock' : ''}, process ${action.second} runs`
    case 'reorgDuring':
      return `process ${action.process} is held up at request ${action.atRequest} during a reorg ${action.depth} deep, ${action.reinclude}, ${action.extraBlocks} blocks longer`
    case 'pauseDuring':
      return `process ${action.process} is held up at request ${action.atRequest}, the operator pauses watcher ${action.watcher}`
    case 'arm':
      return `process ${action.process}: ${action.mishap} at statement ${action.at} from here`
    case 'restart':
      return `process ${action.process} is restarted${action.at ? `, at: ${action.at}` : ''}`
    case 'handlerFault':
      return `watcher ${action.watcher}: ${action.stage} does ${action.does}, ${action.times} times after ${action.after} calls`
    case 'resume':
      return 'the operator resumes'
    case 'pause':
      return `the operator pauses watcher ${action.watcher}`
    case 'moveCursor':
      return `the operator moves the cursor of watcher ${action.watcher} back by ${action.back}${action.below ? ', below the low-water mark' : ''}`
    case 'freeze':
      return `process ${action.process} runs ${action.watcher === null ? 'all watchers' : `watcher ${action.watcher}`} and is frozen at statement ${action.atStatement}, ${action.expires ? 'its leases expire, ' : ''}${action.ms} ms pass, process ${action.other} runs${action.stays === undefined ? '' : `, and is held up at request ${action.stays} while the first wakes up`}`
    case 'thaw':
      return `process ${action.process} wakes up`
    case 'restore':
      return `process ${action.process} runs; a copy of the database is made at request ${action.atRequest}, and put back ${action.more} requests later or between two runs`
    case 'violate':
      return 'final blocks are replaced'
  }
}

/** An action as a line of the story. */
export function wordsOf(action: PlannedAction): string {
  return `${action.id}. ${what(action)}`
}
