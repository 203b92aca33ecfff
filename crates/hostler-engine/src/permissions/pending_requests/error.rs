//! Errors of answers to pending requests.

/// Why an answer to a pending request is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The request was answered or withdrawn, or its turn has ended.
    #[error("the request is no longer pending")]
    NotPending,
    /// There is no such option.
    #[error("the request has no option {option:?}")]
    UnknownOption {
        /// The option's id.
        option: String,
    },
    /// The option and the answer contradict each other.
    #[error("the selected option contradicts the answer")]
    Contradiction,
    /// A rule cannot be created for an edited input.
    #[error("an edited input can only be allowed once; rules apply to the input of the agent")]
    RuleForEditedInput,
    /// The feedback or the answer is too long.
    #[error("the answer has more than {max_bytes} bytes; shorten it")]
    TooLong {
        /// Maximum length in bytes.
        max_bytes: usize,
    },
    /// The edited input is too large.
    #[error("the edited input has more than {max_bytes} bytes; shorten it")]
    EditedInputTooLarge {
        /// Maximum size in bytes.
        max_bytes: usize,
    },
    /// The edited input is not a JSON object.
    #[error("the edited input is not a JSON object{}", .problem.as_ref().map(|problem| format!(": {problem}")).unwrap_or_default())]
    InvalidEditedInput {
        /// The parser's error, if it is not JSON.
        problem: Option<String>,
    },
    /// There is no such question.
    #[error("the request has no question {question:?}")]
    UnknownQuestion {
        /// The question's id.
        question: String,
    },
    /// A required question has no answer.
    #[error("the question {question:?} needs an answer")]
    AnswerRequired {
        /// The text of the question.
        question: String,
    },
    /// The answer has another type than the question.
    #[error("the answer to {question:?} has the wrong type")]
    WrongType {
        /// The text of the question.
        question: String,
    },
    /// The question has no such option.
    #[error("the question {question:?} has no option {option:?}")]
    UnknownChoice {
        /// The text of the question.
        question: String,
        /// The option's id.
        option: String,
    },
    /// An option is selected twice.
    #[error("the option {option:?} is selected twice")]
    DuplicateChoice {
        /// The option's id.
        option: String,
    },
    /// The question allows no free text.
    #[error("the question {question:?} does not accept free text; select an option")]
    FreeTextNotAllowed {
        /// The text of the question.
        question: String,
    },
    /// A plan is accepted with a comment.
    #[error("a plan is carried out unchanged; to request changes, select \"Keep planning\"")]
    CommentOnAcceptedPlan,
}

impl AnswerError {
    /// The stable code for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotPending => "requestNotPending",
            Self::UnknownOption { .. } | Self::UnknownChoice { .. } => "unknownOption",
            Self::Contradiction | Self::CommentOnAcceptedPlan => "contradictoryAnswer",
            Self::RuleForEditedInput => "ruleForEditedInput",
            Self::TooLong { .. } => "answerTooLong",
            Self::EditedInputTooLarge { .. } => "editedInputTooLarge",
            Self::InvalidEditedInput { .. } => "invalidEditedInput",
            Self::UnknownQuestion { .. } => "unknownQuestion",
            Self::AnswerRequired { .. } => "answerRequired",
            Self::WrongType { .. } => "invalidAnswer",
            Self::DuplicateChoice { .. } => "duplicateOption",
            Self::FreeTextNotAllowed { .. } => "freeTextNotAllowed",
        }
    }
}
