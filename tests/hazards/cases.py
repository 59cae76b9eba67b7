"""What is to become of each hazard's program: the table behind the tests and behind docs/hazards.md.

One row per hazard of the catalogue (H105 to H123 concern accelerate alone and have tests of their own).  Lines at which
something must be reported are marked in the programs: `# reported: MG504`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALONE = ("MG101", "MG302")  # what every program with the split at the call has
SHARED = ("MG101", "MG201", "MG202", "MG301")  # and every one with a sampler for each process


@dataclass(frozen=True)
class Case:
    """`verdict` is what verify must say of the pair, or empty with the reason in `unverified`."""

    row: str
    title: str
    catalogue: str  # what the catalogue asks for
    program: str
    way: str
    rules: tuple[str, ...]  # that must have converted something
    reason: str  # what makes the answer right, or why it is not a conversion
    verdict: str = "EQUAL"
    unverified: str = ""
    devices: int = 2
    files: tuple[str, ...] = ()
    options: dict[str, object] = field(default_factory=dict)  # of the check
    demoted: str = ""  # a counter-example, where the catalogue asks for a conversion

    @property
    def number(self) -> int:
        return int(self.row[1:])


def call(row: str, title: str, catalogue: str, program: str, reason: str, *more: str, **rest: object) -> Case:
    return Case(row, title, catalogue, program, "call", (*ALONE, *more), reason, **rest)  # type: ignore[arg-type]


def shared(row: str, title: str, catalogue: str, program: str, reason: str, *more: str, **rest: object) -> Case:
    return Case(row, title, catalogue, program, "distributed", (*SHARED, *more), reason, **rest)  # type: ignore[arg-type]


def batches(row: str, title: str, catalogue: str, program: str, reason: str, *more: str, **rest: object) -> Case:
    rules = ("MG101", "MG204", "MG301", *more)
    return Case(row, title, catalogue, program, "batch", rules, reason, **rest)  # type: ignore[arg-type]


def whole(row: str, title: str, catalogue: str, program: str, reason: str, *more: str, **rest: object) -> Case:
    return shared(row, title, catalogue, program, reason, "MG405", *more, **rest)


OWN_BRANCH = "the program's own distributed branch stays behind its test, and the conversion is beside it"
CASES = (
    shared(
        "H01",
        "the batch is of all GPUs together",
        "auto",
        "h01_batch_is_global",
        "the loader's batch is divided, at the loader",
        devices=4,
    ),
    call(
        "H02",
        "a batch that does not divide",
        "auto+helper",
        "h02_batch_not_divisible",
        "an odd batch goes whole to all processes and is split at the call; a batch that only the run knows is checked, with an error that names both numbers",
    ),
    shared(
        "H03",
        "keeping the batch per GPU",
        "flag",
        "h03_keep_the_per_gpu_batch",
        "the default keeps the whole batch; --batch per-gpu is the other policy (MG401)",
        devices=4,
    ),
    shared(
        "H04",
        "an uneven last batch",
        "auto+helper",
        "h04_uneven_last_batch",
        "the sampler evens out the last batch by repeating at most one sample less than there are processes, once per epoch: a named difference (note), gone with --sampling call",
    ),
    whole(
        "H05",
        "a device without samples",
        "auto+helper",
        "h05_device_without_samples",
        "no process is without samples: the sampler repeats at most one less than there are processes (a named difference); with --sampling call an idle process takes part and adds nothing",
        devices=4,
    ),
    shared("H06", "drop_last", "auto", "h06_drop_last", "loader and sampler both drop the remainder, once"),
    shared(
        "H07",
        "sampler and shuffle exclude each other",
        "auto",
        "h07_shuffle_by_expression",
        "the expression moves to the sampler",
    ),
    shared(
        "H08",
        "set_epoch is missing",
        "auto",
        "h08_epochs_in_a_function",
        "set_epoch is the first statement of the loop over epochs, also when batches are read in another function",
    ),
    shared(
        "H09",
        "padded duplicates in validation",
        "auto",
        "h09_validation_counts_once",
        "evaluation is shared out without padding and counts are added up",
        "MG702",
        devices=4,
    ),
    batches(
        "H10",
        "samplers of the program's own",
        "auto+helper",
        "h10_weighted_sampler",
        "the sampler stays and draws whole batches",
    ),
    batches(
        "H11",
        "samplers that draw differently in each process",
        "auto+helper",
        "h11_sampler_on_python_random",
        "rank 0's random numbers are shared before the sampler draws",
    ),
    call(
        "H12",
        "batches of many sizes",
        "flag",
        "h12_batches_by_length",
        "whole batches everywhere; the number of steps is the same",
    ),
    call(
        "H13",
        "streams without an end",
        "warn",
        "h13_endless_batches",
        "every process reads the same stream, and decides alike when to stop",
    ),
    shared(
        "H14",
        "fewer samples than processes",
        "auto",
        "h14_very_few_samples",
        "a batch that does not divide ends the program with both numbers",
    ),
    shared(
        "H15",
        "data that is shared out twice",
        "auto",
        "h15_own_sharding",
        OWN_BRANCH + "; the loader keeps one way of sharing",
    ),
    shared(
        "H16",
        "schedules by the length of the loader",
        "auto",
        "h16_schedule_by_steps",
        "the number of steps stays, so nothing is to be changed",
    ),
    shared(
        "H17",
        "the same augmentation everywhere",
        "flag",
        "h17_augmentation_by_seed",
        "seeds part before the epochs begin; --seed-policy same keeps them equal",
        "MG203",
    ),
    shared("H18", "dropout", "warn", "h18_dropout", "each process draws its own masks", "MG203"),
    shared("H19", "loader workers", "auto", "h19_loader_workers", "the workers are divided"),
    shared(
        "H20", "downloads", "auto", "h20_download", "rank 0 first, then the others", "MG510", options={"fake_data": 40}
    ),
    shared(
        "H21",
        "the data in memory once per process",
        "warn",
        "h21_data_in_memory",
        "training is the same; a note says where memory goes",
        "MG506",
    ),
    call(
        "H22",
        "mixup and its like",
        "warn",
        "h22_mixup",
        "random numbers are drawn for whole batches, equal in all processes",
    ),
    whole(
        "H23",
        "sums instead of means",
        "auto",
        "h23_sum_of_losses",
        "outputs and targets of all processes are put together, with gradients, and the loss sees the whole batch",
    ),
    whole(
        "H24",
        "weighted and masked means",
        "auto+helper",
        "h24_masked_mean",
        "outputs and targets are put together: the loss sees the whole batch and its weights",
        devices=4,
    ),
    shared(
        "H25",
        "a loss inside the model, and its mean",
        "auto",
        "h25_loss_in_forward",
        "each process has the number that a GPU gave; the mean over the GPUs is that of the gradients",
        "MG303",
    ),
    whole(
        "H26",
        "losses of GPUs added up",
        "auto",
        "h26_losses_of_devices_added",
        "the numbers of the processes are put together; the count of GPUs is the count of processes",
        "MG303",
    ),
    whole(
        "H27",
        "losses that compare samples",
        "auto+helper",
        "h27_contrastive_loss",
        "the loss compares the samples of all processes, with gradients",
        devices=4,
    ),
    call(
        "H28", "views joined before the call", "flag", "h28_two_views_in_one_call", "chunks are those of DataParallel"
    ),
    call(
        "H29",
        "a criterion with parameters",
        "auto",
        "h29_criterion_with_parameters",
        "every process computes the whole gradient of the criterion, from equal values",
    ),
    call(
        "H30",
        "a criterion in DataParallel",
        "auto",
        "h30_criterion_in_parallel",
        "the criterion's call is split like the model's; wrappers of other libraries are reported (MG901)",
    ),
    shared(
        "H31",
        "accumulated gradients",
        "auto",
        "h31_accumulated_gradients",
        "every backward pass averages; the sum is the same",
    ),
    shared(
        "H32", "clipped gradients", "auto", "h32_clipped_gradients", "gradients are averaged before they are clipped"
    ),
    shared("H33", "scaled gradients", "auto", "h33_scaled_gradients", "an overflow in one process is one in all"),
    shared(
        "H34",
        "bfloat16 around the call",
        "warn",
        "h34_bfloat16_around_the_call",
        "DataParallel ran float16 there: a note says that numbers change (verify runs both sides without autocast)",
    ),
    shared("H35", "old names of mixed precision", "auto", "h35_old_amp_names", "respelled", "MG010"),
    whole(
        "H36",
        "batches that are skipped",
        "auto+helper",
        "h36_bad_batches_are_skipped",
        "the loss is the same number in all processes, so all skip",
    ),
    call("H37", "gradients of gradients", "warn", "h37_gradient_penalty", "the split call can be differentiated twice"),
    shared(
        "H38",
        "arithmetic with the number of GPUs",
        "auto",
        "h38_arithmetic_with_gpus",
        "the count of GPUs becomes the count of processes",
        "MG303",
    ),
    shared(
        "H39",
        "the loss in the log",
        "auto+helper",
        "h39_loss_in_the_log",
        "running figures are put together after the epoch; a line inside it shows rank 0's share (note MG703)",
        "MG702",
    ),
    shared(
        "H40",
        "batch normalisation",
        "auto",
        "h40_batch_norm",
        "stays as it is: statistics of each process's own share; --sync-bn is another training",
    ),
    Case(
        "H41",
        "synchronised batch normalisation of other libraries",
        "flag",
        "h41_vendored_sync_bn",
        "call",
        (),
        "such layers wait for replicas of one process: reported, or torch's with --sync-bn",
        verdict="",
        unverified="a person has to decide first",
    ),
    shared(
        "H42",
        "statistics at evaluation",
        "auto+helper",
        "h42_statistics_for_evaluation",
        "rank 0's buffers go round before evaluation",
        "MG702",
    ),
    call("H43", "state written in forward", "warn", "h43_state_in_forward", "replicas forget it as DataParallel's did"),
    call(
        "H44",
        "two forward passes with buffers",
        "warn",
        "h44_two_forwards_with_buffers",
        "no version of a buffer changes between the passes",
    ),
    call(
        "H45",
        "an old argument of DistributedDataParallel",
        "auto",
        "h45_old_ddp_argument",
        OWN_BRANCH,
        demoted="renaming it would break the branch for the torch versions that it was written for; the branch does not run",
    ),
    shared("H46", "normalised weights", "auto", "h46_spectral_norm", "their buffers follow rank 0's"),
    shared(
        "H47",
        "moving averages of the model",
        "auto",
        "h47_moving_average",
        "the copy is updated in all processes alike",
    ),
    call(
        "H48",
        "calls past the wrapper",
        "auto+helper",
        "h48_past_the_wrapper",
        "what runs past the wrapper runs on the whole batch in every process, with equal gradients",
    ),
    shared(
        "H49",
        "attributes through the wrapper",
        "auto",
        "h49_attributes_of_the_model",
        "tests for the class know the new one",
        "MG304",
    ),
    call(
        "H50",
        "two backward passes on one forward pass",
        "auto",
        "h50_two_backwards_on_one_forward",
        "each output has a graph of its own",
    ),
    shared(
        "H51",
        "parts that no forward pass uses",
        "auto+verify",
        "h51_part_that_is_never_used",
        "found in the model's class; they get gradients of zero, as under DataParallel",
    ),
    shared(
        "H52",
        "branches in forward",
        "flag",
        "h52_branch_in_forward",
        "parts that one process, or all of them, leave out have a gradient of zero there",
    ),
    whole(
        "H53",
        "outputs that are not in the loss",
        "auto",
        "h53_output_object",
        "find_unused_parameters is never set by itself; put together, an output that the loss leaves out has gradients of zero, as under DataParallel",
    ),
    call(
        "H54",
        "parameters released later",
        "auto",
        "h54_released_later",
        "gradients follow what requires them at each call",
    ),
    call(
        "H55",
        "parts replaced after the wrap",
        "auto",
        "h55_head_replaced_after_the_wrap",
        "the module is looked at in each call",
    ),
    call(
        "H56", "models without anything to train", "auto", "h56_frozen_teacher", "no gradient, no exchange of gradients"
    ),
    shared(
        "H57",
        "two networks, two optimizers",
        "auto",
        "h57_two_players",
        "each backward pass comes behind a forward pass of every network that it reaches, and so exchanges its gradients",
    ),
    shared(
        "H58",
        "layers that are computed again",
        "auto",
        "h58_recomputed_layers",
        "use_reentrant=False computes the same",
        "MG314",
    ),
    call("H59", "static_graph", "flag", "h59_static_graph", OWN_BRANCH + "; never set by a conversion"),
    whole(
        "H60",
        "tied weights, penalties on parameters",
        "auto",
        "h60_tied_weights",
        "the penalty is computed in every process, from equal parameters, and averaged over equal gradients",
    ),
    call(
        "H61", "the model to the host and back", "auto", "h61_to_the_host_and_back", "no hook hangs on the parameters"
    ),
    call(
        "H62",
        "wraps inside the model, functional calls",
        "auto",
        "h62_wrap_inside_the_model",
        "the same parts are split, and the names in checkpoints stay",
    ),
    call(
        "H63",
        "a wrap around a wrap",
        "auto",
        "h63_wrapped_once_only",
        "a test for the class knows the new wrapper",
    ),
    shared(
        "H64", "hooks and compiled models", "warn", "h64_hook_that_collects", "a note says that the hook sees one share"
    ),
    whole(
        "H65",
        "inputs that the wrapper moves",
        "auto",
        "h65_inputs_left_on_the_host",
        "the wrapper still moves the inputs, and what is put together lies where the outputs are",
    ),
    call(
        "H66",
        "arguments made for scatter",
        "auto",
        "h66_arguments_made_for_scatter",
        "arguments are cut by DataParallel's rules",
        "MG303",
    ),
    call(
        "H67",
        "the batch is the second dimension",
        "warn",
        "h67_second_dimension",
        "dim is kept, and the hidden state is of the whole batch",
    ),
    shared("H68", "packed sequences", "auto", "h68_packed_sequences", "total_length is harmless"),
    whole("H69", "outputs of all samples", "warn", "h69_feature_bank", "every process has all rows"),
    whole("H70", "nested outputs", "auto", "h70_nested_output", "any nesting of tensors is put together"),
    shared(
        "H71",
        "work on the GPU before the processes meet",
        "auto",
        "h71_gpu_at_import",
        "the device is set first of all, also above the main function; what another module does while it is imported is a question",
    ),
    whole(
        "H72",
        "GPUs by number",
        "auto",
        "h72_first_gpu_by_number",
        "the first becomes the process's own; another one, which something was meant for, is a question",
        "MG311",
    ),
    call(
        "H73",
        "new tensors on the GPU by default",
        "auto",
        "h73_default_tensors_on_the_gpu",
        "stays; a note says what it costs",
        options={"float64": False},
    ),
    shared(
        "H74",
        "transfers to the GPU",
        "auto",
        "h74_old_transfers",
        "`async` is respelled; a bare .cuda() means the process's own GPU",
        "MG001",
    ),
    shared(
        "H75",
        "CUDA_VISIBLE_DEVICES in the program",
        "auto",
        "h75_visible_devices",
        "removed, with the launch line that means the same",
        "MG102",
    ),
    shared("H76", "lists of GPUs", "auto", "h76_chosen_gpus", "the list goes from the wrap and from moves", "MG311"),
    shared("H77", "without a GPU, without a launcher", "auto", "h77_without_a_gpu", "a group of one"),
    shared("H78", "switches of the library", "auto", "h78_switches_of_the_library", "left alone"),
    shared("H79", "a script without a main function", "auto", "h79_script_without_main", "torchrun needs no guard"),
    shared(
        "H80",
        "an option for the local rank",
        "auto",
        "h80_local_rank_option",
        OWN_BRANCH + "; torchrun gives no such option",
    ),
    shared(
        "H81",
        "launch scripts",
        "auto",
        "h81_launch_script",
        "the lines that start the program are shown as they have to be, and written with --scripts (MG107)",
        files=("h81_run.sh",),
        demoted="`srun python train.py $ARGS` and loops over GPUs in a shell script: what torchrun line they need is not in the line",
    ),
    shared("H82", "ports", "auto", "h82_own_port", "removed; torchrun finds a free one", "MG106"),
    shared(
        "H83",
        "threads",
        "auto",
        "h83_threads",
        "torchrun's one thread per process",
        demoted="the right number is the cores of the machine that trains, not of the one that converts; torchrun says what it sets",
    ),
    shared(
        "H84",
        "the end of the program",
        "auto",
        "h84_exit",
        "the group is left before the status is given, and before an exit in a function (MG110)",
    ),
    call(
        "H85",
        "exceptions",
        "warn",
        "h85_errors_are_survived",
        "an error in one process's forward pass is raised in all; of one in its backward pass a note says what it does",
        "MG501",
    ),
    shared(
        "H86",
        "options that the launcher takes for its own",
        "auto",
        "h86_options_like_the_launcher",
        "the launch line has -- before the program",
    ),
    shared(
        "H87",
        "questions to the user",
        "warn",
        "h87_question_to_the_user",
        "asked once, answered everywhere; rank 0 decides whether the folder is there",
        "MG505",
        "MG511",
    ),
    shared(
        "H88",
        "long work on one process",
        "auto",
        "h88_long_preparation",
        "rank 0 prepares first; --pg-timeout gives the others more time (MG105)",
        "MG501",
    ),
    shared(
        "H89",
        "settings of the network",
        "warn",
        "h89_network_settings",
        "left alone: they are set before the first collective call either way",
    ),
    shared(
        "H90", "backends", "auto", "h90_backend_by_name", "nccl where there is a GPU and nccl, else gloo; " + OWN_BRANCH
    ),
    shared("H91", "messages", "auto", "h91_messages", "one process prints, logs and shows progress", "MG508", "MG509"),
    shared(
        "H92",
        "event files and tables",
        "auto+helper",
        "h92_event_files",
        "one process writes, the others go through the same lines",
        "MG503",
    ),
    shared(
        "H93", "names by the clock", "auto+helper", "h93_folder_by_the_clock", "rank 0's name for all", "MG502", "MG504"
    ),
    shared("H94", "checkpoints", "auto", "h94_checkpoints", "written by one process", "MG501"),
    shared(
        "H95",
        "reading what one process wrote",
        "auto",
        "h95_best_is_read_back",
        "the others wait until it is there",
        "MG506",
    ),
    shared("H96", "names in checkpoints", "auto", "h96_names_in_the_checkpoint", "both wrappers give the same names"),
    shared(
        "H97",
        "checkpoints to their old device",
        "auto",
        "h97_checkpoint_to_its_old_device",
        "read to main memory",
        "MG602",
    ),
    call(
        "H98",
        "whole models in files",
        "flag",
        "h98_whole_model_in_a_file",
        "the file goes on to hold a DataParallel, made for it; a program that reads such files itself is asked",
        "MG601",
    ),
    shared(
        "H99",
        "objects in checkpoints",
        "warn",
        "h99_objects_in_the_checkpoint",
        "a note; weights_only=False only with --unsafe (MG011)",
    ),
    call(
        "H100",
        "random states in checkpoints",
        "warn",
        "h100_random_state_in_the_checkpoint",
        "all processes go on with the same numbers, which the split at the call needs",
    ),
    shared(
        "H101",
        "evaluation through the wrapper",
        "auto",
        "h101_evaluation_through_the_wrapper",
        "through the bare model, after rank 0's buffers went round",
        "MG702",
    ),
    shared(
        "H102",
        "evaluation on one process",
        "auto",
        "h102_evaluation_in_a_written_line",
        "no process runs the wrapped model alone; all compute, one writes",
        "MG501",
    ),
    shared(
        "H103",
        "metrics of all samples",
        "auto",
        "h103_metric_of_all_samples",
        "every process evaluates everything where figures do not add up",
    ),
    whole(
        "H104",
        "decisions",
        "auto+helper",
        "h104_decisions",
        "figures are equal everywhere, and times are rank 0's",
        "MG504",
    ),
    shared(
        "H124",
        "unused parameters under weight decay",
        "flag",
        "h124_unused_parameters_and_decay",
        "zeros, as under DataParallel, so that they shrink as before",
    ),
)

# Hazards of the accelerate form alone, with the same numbers; its tests are beside its rules.
ACCELERATE = {
    105: "gathered figures of evaluation",
    106: "schedules that step once per process",
    107: "schedules by epochs and by plateaus",
    108: "what the batch size means",
    109: "objects that do not go through prepare",
    110: "last batches that are filled up",
    111: "dropped batches",
    112: "divided losses of accumulated gradients",
    113: "steps at the end of the loader",
    114: "clipped gradients",
    115: "unwrapped models in checkpoints",
    116: "mixed precision that is switched on elsewhere",
    117: "arguments of DistributedDataParallel",
    118: "how it is launched",
    119: "streams that rank 0 reads for all",
    120: "loaders that read ahead",
    121: "seeds by device",
    122: "what must not be prepared",
    123: "waiting under a test for the main process",
}
