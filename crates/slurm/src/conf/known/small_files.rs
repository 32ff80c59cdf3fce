//! The keys of the smaller files, with the types that the daemons of 24.11 and 26.05 hold for them.

use super::Kind::{Bool, Float, Hosts, Level, Line, Text, U16, U32, U64};
use super::{BOTH, DEFUNCT, Known, NEW, REMOVED_OLD, known};

/// slurmdbd.conf.
pub(in crate::conf) const SLURMDBD_CONF: &[Known] = &[
    known("AllowNoDefAcct", Bool, BOTH),
    known("AllResourcesAbsolute", Bool, BOTH),
    known("ArchiveDir", Text, BOTH),
    known("ArchiveEvents", Bool, BOTH),
    known("ArchiveJobEnv", Bool, NEW),
    known("ArchiveJobs", Bool, BOTH),
    known("ArchiveJobScript", Bool, NEW),
    known("ArchiveResvs", Bool, BOTH),
    known("ArchiveScript", Text, BOTH),
    known("ArchiveSteps", Bool, BOTH),
    known("ArchiveSuspend", Bool, BOTH),
    known("ArchiveTXN", Bool, BOTH),
    known("ArchiveUsage", Bool, BOTH),
    known("AuthAltParameters", Text, BOTH),
    known("AuthAltTypes", Text, BOTH),
    known("AuthInfo", Text, BOTH),
    known("AuthType", Text, BOTH),
    known("CommitDelay", U16, BOTH),
    known("CommunicationParameters", Text, BOTH),
    known("DbdAddr", Text, BOTH),
    known("DbdBackupHost", Text, BOTH),
    known("DbdHost", Text, BOTH),
    known("DbdPort", U16, BOTH),
    known("DebugFlags", Text, BOTH),
    known("DebugLevel", Level, BOTH),
    known("DebugLevelSyslog", Level, BOTH),
    known("DefaultQOS", Text, BOTH),
    known("DisableArchiveCommands", Bool, NEW),
    known("DisableCoordDBD", Bool, BOTH),
    known("DisableRollups", Bool, NEW),
    known("HashPlugin", Text, BOTH),
    known("JobPurge", U32, BOTH),
    known("LogFile", Text, BOTH),
    known("LogTimeFormat", Text, BOTH),
    known("MaxPurgeLimit", U32, NEW),
    known("MaxQueryTimeRange", Text, BOTH),
    known("MessageTimeout", U16, BOTH),
    known("Parameters", Text, BOTH),
    known("PidFile", Text, BOTH),
    known("PluginDir", Text, BOTH),
    known("PrivateData", Text, BOTH),
    known("PurgeEventAfter", Text, BOTH),
    known("PurgeEventMonths", U32, BOTH),
    known("PurgeJobAfter", Text, BOTH),
    known("PurgeJobEnvAfter", Text, NEW),
    known("PurgeJobMonths", U32, BOTH),
    known("PurgeJobScriptAfter", Text, NEW),
    known("PurgeResvAfter", Text, BOTH),
    known("PurgeStepAfter", Text, BOTH),
    known("PurgeStepMonths", U32, BOTH),
    known("PurgeSuspendAfter", Text, BOTH),
    known("PurgeSuspendMonths", U32, BOTH),
    known("PurgeTXNAfter", Text, BOTH),
    known("PurgeTXNMonths", U32, BOTH),
    known("PurgeUsageAfter", Text, BOTH),
    known("PurgeUsageMonths", U32, BOTH),
    known("SlurmUser", Text, BOTH),
    known("StepPurge", U32, BOTH),
    known("StorageBackupHost", Text, BOTH),
    known("StorageHost", Text, BOTH),
    known("StorageLoc", Text, BOTH),
    known("StorageParameters", Text, BOTH),
    known("StoragePass", Text, BOTH),
    known("StoragePassScript", Text, NEW),
    known("StoragePort", U16, BOTH),
    known("StorageType", Text, BOTH),
    known("StorageUser", Text, BOTH),
    known("TCPTimeout", U16, BOTH),
    known("TLSParameters", Text, BOTH),
    known("TLSType", Text, BOTH),
    known("TrackSlurmctldDown", Bool, BOTH),
    known("TrackWCKey", Bool, BOTH),
];

/// cgroup.conf.
pub(in crate::conf) const CGROUP_CONF: &[Known] = &[
    known("AllowedDevicesFile", Text, BOTH),
    known("AllowedRAMSpace", Float, BOTH),
    known("AllowedSwapSpace", Float, BOTH),
    known("CgroupAutomount", Text, DEFUNCT),
    known("CgroupJobIdPaths", Bool, NEW),
    known("CgroupMountpoint", Text, BOTH),
    known("CgroupPlugin", Text, BOTH),
    known("CgroupReleaseAgentDir", Text, REMOVED_OLD),
    known("CgroupSlice", Text, NEW),
    known("ConstrainCores", Bool, BOTH),
    known("ConstrainDevices", Bool, BOTH),
    known("ConstrainRAMSpace", Bool, BOTH),
    known("ConstrainSwapSpace", Bool, BOTH),
    known("EnableControllers", Bool, BOTH),
    known("EnableExtraControllers", Text, NEW),
    known("IgnoreSystemd", Bool, BOTH),
    known("IgnoreSystemdOnFailure", Bool, BOTH),
    known("MaxRAMPercent", Float, BOTH),
    known("MaxSwapPercent", Float, BOTH),
    known("MemoryLimitEnforcement", Bool, BOTH),
    known("MemoryLimitThreshold", Float, BOTH),
    known("MemorySwappiness", U64, BOTH),
    known("MinRAMSpace", U64, BOTH),
    known("SignalChildrenProcesses", Bool, BOTH),
    known("SystemdTimeout", U64, BOTH),
];

/// gres.conf.
pub(in crate::conf) const GRES_CONF: &[Known] = &[
    known("AutoDetect", Text, BOTH),
    known("Name", Line(GRES_LINE), BOTH),
    known("NodeName", Line(GRES_LINE), BOTH),
];

/// What may follow `Name=` and `NodeName=` in gres.conf.
const GRES_LINE: &[Known] = &[
    known("AutoDetect", Text, BOTH),
    known("Cores", Text, BOTH),
    known("Count", Text, BOTH),
    known("CPUs", Text, BOTH),
    known("File", Text, BOTH),
    known("Files", Text, BOTH),
    known("Flags", Text, BOTH),
    known("Link", Text, BOTH),
    known("Links", Text, BOTH),
    known("MultipleFiles", Text, BOTH),
    known("Name", Text, BOTH),
    known("Type", Text, BOTH),
];

/// topology.conf.
pub(in crate::conf) const TOPOLOGY_CONF: &[Known] = &[
    known("BlockName", Line(BLOCK_LINE), BOTH),
    known("BlockSizes", Text, BOTH),
    known("RingName", Line(BLOCK_LINE), NEW),
    known("SwitchName", Line(SWITCH_LINE), BOTH),
];

/// What may follow `SwitchName=`.
const SWITCH_LINE: &[Known] =
    &[known("LinkSpeed", U32, BOTH), known("Nodes", Hosts, BOTH), known("Switches", Text, BOTH)];

/// What may follow `BlockName=` and `RingName=`.
const BLOCK_LINE: &[Known] = &[known("Nodes", Hosts, BOTH)];

/// mpi.conf.
pub(in crate::conf) const MPI_CONF: &[Known] = &[
    known("PMIxCliTmpDirBase", Text, BOTH),
    known("PMIxCollFence", Text, BOTH),
    known("PMIxDebug", U32, BOTH),
    known("PMIxDirectConn", Bool, BOTH),
    known("PMIxDirectConnEarly", Bool, BOTH),
    known("PMIxDirectConnUCX", Bool, BOTH),
    known("PMIxDirectSameArch", Bool, BOTH),
    known("PMIxEnv", Text, BOTH),
    known("PMIxFenceBarrier", Bool, BOTH),
    known("PMIxNetDevicesUCX", Text, BOTH),
    known("PMIxTimeout", U32, BOTH),
    known("PMIxTlsUCX", Text, BOTH),
];

/// job_container.conf.
pub(in crate::conf) const JOB_CONTAINER_CONF: &[Known] = &[
    known("AutoBasePath", Bool, BOTH),
    known("BasePath", Line(CONTAINER_LINE), BOTH),
    known("CloneNSEpilog", Text, BOTH),
    known("CloneNSEpilog_Wait", U32, BOTH),
    known("CloneNSScript", Text, BOTH),
    known("CloneNSScript_Wait", U32, BOTH),
    known("Dirs", Text, BOTH),
    known("EntireStepInNS", Bool, BOTH),
    known("NodeName", Line(CONTAINER_LINE), BOTH),
    known("Shared", Bool, BOTH),
];

/// What may follow `BasePath=` and `NodeName=` in job_container.conf.
const CONTAINER_LINE: &[Known] = &[
    known("AutoBasePath", Bool, BOTH),
    known("BasePath", Text, BOTH),
    known("CloneNSEpilog", Text, BOTH),
    known("CloneNSEpilog_Wait", U32, BOTH),
    known("CloneNSScript", Text, BOTH),
    known("CloneNSScript_Wait", U32, BOTH),
    known("Dirs", Text, BOTH),
    known("EntireStepInNS", Bool, BOTH),
    known("InitScript", Text, BOTH),
    known("Shared", Bool, BOTH),
];
