/**
 * Words that this project does not use, with what to write instead. `in` limits an entry to identifiers or
 * to text (comments, messages, documents); without it both are checked. An identifier is checked word by
 * word (`lastWantedRun` is last, wanted, run).
 */
export const WORDS = [
  {
    words: ['tell', 'tells', 'told', 'telling', 'teller', 'untold'],
    use: 'report, flush, checkpoint, message, distinguish',
  },
  { words: ['room', 'rooms'], use: 'hooks of a kind; capacity, space, budget' },
  {
    words: ['place', 'places'],
    in: 'identifiers',
    use: 'namespaced name, API resource, placement, location',
  },
  {
    words: ['turn', 'turns'],
    in: 'identifiers',
    use: 'sync context, scheduler, queue position, lock',
  },
  {
    words: [
      'lack',
      'lacks',
      'lacking',
      'obstacle',
      'obstacles',
      'shortfall',
      'misfit',
      'misfits',
      'unrest',
    ],
    use: 'blocker before the work, failure after it; is missing, does not have',
  },
  {
    words: ['refusal', 'refusals', 'trouble', 'troubled', 'doubt', 'doubted'],
    in: 'identifiers',
    use: 'blocker before the work, failure after it',
  },
  { words: ['wanted'], use: 'desired, required' },
  {
    words: ['shown', 'sight', 'sighting', 'sightings'],
    in: 'identifiers',
    use: 'observed, live, cached, shard view, sample',
  },
  { words: ['kept', 'staying'], in: 'identifiers', use: 'unchanged, children, retained' },
  {
    words: ['tally', 'course', 'pace'],
    in: 'identifiers',
    use: 'progress, checkpoint, throughput',
  },
  {
    words: ['patience', 'patiently', 'lanes', 'arranged', 'settled'],
    in: 'identifiers',
    use: 'retry, concurrency, wait for',
  },
  {
    words: ['people', 'person', 'somebody', 'nobody', 'whoever', 'anybody', 'everybody'],
    use: 'user, CLI, another controller, no owner, callers that',
  },
  {
    words: ['anew', 'mend', 'mends', 'mended', 'mending', 'besides', 'afresh'],
    use: 'recreated, again; fix, repair; also, in addition',
  },
  {
    words: ['ending', 'endings', 'rights', 'witness', 'census', 'verdict', 'cure', 'cures'],
    in: 'identifiers',
    use: 'outcome; RBAC; inputs; inventory; result; fix',
  },
  { phrase: 'under way', use: 'in progress' },
  { phrase: 'on (its|their) way', use: 'in transit, in progress' },
  { phrase: 'put(s|ting)? right', use: 'fix, repair, correct' },
  { phrase: 'made again', use: 'recreated' },
  { phrase: '(given|gives?|giving) back', use: 'released, restored' },
  { phrase: 'stands? in for', use: 'acts for, holds the lease of' },
  { phrase: '(goes|gone|going) on with', use: 'continue, resume' },
  { phrase: '(is|are|was|were) rid of', use: 'delete, remove' },
  { phrase: 'lies? (in|on|under|below|beside)', use: 'is, is stored' },
  { phrase: 'looks? (once )?more', use: 'checks again' },
  { phrase: 'to be had', use: 'available' },
  {
    phrase: 'facts [0-9][0-9.]*',
    use: 'the section of docs/engine-notes.md or docs/metacontroller-notes.md',
  },
  { phrase: 'what (is|are) ours', use: 'what this operator owns' },
]

/** Where a word on the list is right, each with its reason. `file` is a prefix of a path. */
export const EXCEPTIONS = [
  {
    file: 'metacontroller/controllers.ts',
    word: 'inPlace (place)',
    reason: 'the update strategy InPlace of Metacontroller',
  },
  { file: '.ci/word-list.js', reason: 'the list itself' },
  { file: 'test/docs/words.test.ts', reason: 'words that the check must find' },
  { file: 'jobs/kubectl/explain.ts', word: 'cure (cure)', reason: 'key of its JSON output' },
  { file: 'jobs/kubectl/status.ts', word: 'cures (cures)', reason: 'key of its JSON output' },
  { file: 'test/jobs/kubectl/', word: 'cure (cure)', reason: 'key of the JSON output' },
  { file: 'test/jobs/kubectl/', word: 'cures (cures)', reason: 'key of the JSON output' },
  { file: 'test/jobs/migration/', word: 'lanes (lanes)', reason: 'key of the progress report' },
  { file: 'test/jobs/restore/', word: 'isInPlace (place)', reason: 'key of the progress report' },
  {
    file: 'crds/contract/migration-job.ts',
    word: 'lanes (lanes)',
    reason: 'key of the progress that Jobs write',
  },
  { file: 'jobs/migration/', word: 'lanes (lanes)', reason: 'key of the progress that Jobs write' },
  {
    file: 'crds/contract/restore-job.ts',
    word: 'isInPlace (place)',
    reason: 'key of the progress that Jobs write',
  },
  {
    file: 'jobs/restore/',
    word: 'isInPlace (place)',
    reason: 'key of the progress that Jobs write',
  },
]

/** Prefixes of paths that still have findings. Lint passes over them; each is removed once it is clean. */
export const PENDING = []
